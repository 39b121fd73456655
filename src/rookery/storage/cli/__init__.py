"""Commands about stored sessions, settings and keys.

`list`, `show`, `search`, `delete`, `fork`, `export`, `ps`, `config`, `settings` and `auth`:
they parse, ask the store, and print.
"""
