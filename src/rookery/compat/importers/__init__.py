"""Sessions of other agents, read and translated to our facts.

One module for each format finds its sessions and reads them as entries (`foreign_sessions`).
`imported_facts` makes our events of the entries, and `compat/cli.py` stores them. Nothing here
writes, and the files of other agents are only opened to be read.
"""
