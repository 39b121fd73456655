"""`rookery rewind`: go back to an earlier point of a session.

It parses, asks a host, and prints.
"""
