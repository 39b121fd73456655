"""`rookery mcp`: servers are listed, tried, added, imported and removed.

The commands parse, edit one file or connect to one server, and print.
"""
