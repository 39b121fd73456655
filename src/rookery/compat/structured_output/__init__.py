"""`--output-format json` and `stream-json`: a run as JSON for programs.

`StructuredOutput` turns facts into events, `JsonOutput` writes them. Event names are a contract:
they can be added, but not changed.
"""
