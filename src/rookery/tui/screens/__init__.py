"""Screens over the conversation: checkpoints, costs, models, modes, sessions, help.

`SideScreen` and `ListScreen` are the base classes.
"""
