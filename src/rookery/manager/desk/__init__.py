"""Carries out what the Agent Manager is asked: one family of requests a file."""
