"""`rookery mcp`: list, test, add and remove servers.

It edits the configuration file and leaves the rest of it as it is.
"""
