"""Separate checkouts of a project, each with a branch of its own."""
