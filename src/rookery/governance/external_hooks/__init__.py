"""The user's own programs that run before and after tool calls.

`ExternalHooks` tells them of events and joins their answers, `HookTrust` knows which of a
project's hooks the user has seen. A hook that fails never allows anything.
"""
