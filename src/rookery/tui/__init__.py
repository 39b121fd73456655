"""The full-screen client, made with Textual.

`FullScreen` is the app, `TaskDesk` the task on it, `TranscriptView` the conversation. It talks to a
host through `protocol`; only what is on the screen is laid out.
"""
