"""The way out for commands in the sandbox: a local proxy that decides by host.

`CommandProxy` serves one command, `KnownHosts` lists what it may reach unasked. It never
connects to private addresses for a command.
"""
