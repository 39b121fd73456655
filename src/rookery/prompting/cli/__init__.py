"""`rookery modes`: list, export and import modes.

It reads and writes mode files, nothing else.
"""
