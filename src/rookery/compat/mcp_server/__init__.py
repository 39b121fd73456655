"""`rookery mcp serve`: sessions as tools of the Model Context Protocol, for other agents.

`SessionServer` answers the protocol, `SessionCall` runs one turn of a session for a tool call. The
calling agent is not the user: it never approves an action. It may import what a client may.
"""
