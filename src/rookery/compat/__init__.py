"""Formats that other programs already speak, translated from our facts and to our commands.

One subpackage for each format, and what they share: `driver` reads lines and writes events.
Names of other products are spelled here and nowhere else.
"""
