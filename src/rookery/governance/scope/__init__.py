"""Which paths and commands an intent covers.

`scope_patterns` is the pattern language, `scope_verdict` judges one path, `call_verdict` a whole
tool call. Nothing in this package asks the user or changes a file.
"""
