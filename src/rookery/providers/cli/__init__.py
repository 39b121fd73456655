"""`rookery models`: which models are known here, and which one a session uses.

It reads and prints.
"""
