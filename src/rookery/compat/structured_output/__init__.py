"""`--output-format json` and `stream-json`: a run as JSON for programs.

`StructuredOutput` turns facts into events, `JsonOutput` writes them. The event names are a
contract and change only by addition.
"""
