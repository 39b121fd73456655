"""Formats of other programs, translated from our facts and to our commands.

One subpackage for each format; `driver` holds what they share. `importers` translates the stored
sessions of other agents to our facts. Names of other products appear here
and nowhere else.
"""
