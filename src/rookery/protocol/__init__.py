"""The one protocol between clients and hosts: JSON-RPC, its schema and its server.

`Host` is what a client talks to, local or remote; `serve` offers one, `remote` connects to one;
`codec` converts facts and commands to JSON. It carries values and knows no feature.
"""
