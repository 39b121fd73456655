"""`--json-io`: the messages that Roo Code's webviews and managers exchange with their engine.

`EngineMessagesClient` is our end; `ExtensionClient` is the other end, for Python programs. Both
only translate, and make no decisions about tasks.
"""
