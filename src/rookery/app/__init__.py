"""Puts the product together: settings in, a host out.

`local_host` opens everything a workspace needs, `host` is what clients talk to, `briefing`
gives models their prompt and tools. It is the only package that may import all others; it makes
no decisions of its own, and nothing but `cli` imports it.
"""
