"""The Agent Client Protocol: editors drive sessions over standard input and output.

`agent` answers the requests of the client, `session` runs one conversation on a host, and the other
modules translate without doing anything. Nothing outside knows the protocol's names.
"""
