"""The user's own programs that run before and after tool calls.

`ExternalHooks` runs them for an event and combines their answers; `HookTrust` stores which hooks of
a project the user has trusted. A hook that fails never allows anything.
"""
