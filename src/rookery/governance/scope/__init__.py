"""Which paths and commands an intent covers.

`Scope` is the pattern language, `scope_verdict` judges one path, `call_verdict` a whole call.
It judges and has no effect.
"""
