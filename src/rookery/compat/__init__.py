"""Formats of other programs, translated from our facts and to our commands.

One subpackage for each format; `driver` holds what they share. Names of other products appear here
and nowhere else.
"""
