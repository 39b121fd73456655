"""Intents: the file they are written in, their life cycle, and what a model is told of them.

`Intent` is the value, `IntentReader` and `IntentWriter` are the way from and to
`active_intents.yaml`. Only a person changes the status or the scope of an intent.
"""
