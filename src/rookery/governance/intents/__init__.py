"""Intents: their file, their life cycle, and the context a model gets about them.

`IntentReader` and `IntentWriter` read and edit `active_intents.yaml`; `Intent` is the parsed value.
Only the user changes the status or the scope of an intent.
"""
