"""The one protocol between clients and hosts: JSON-RPC, its schema, its server.

`Host` is what a client talks to, near or far; `serve` offers one, `remote` reaches one; `codec`
is the JSON spelling of facts and commands. It carries values and knows no feature.
"""
