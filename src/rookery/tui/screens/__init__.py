"""Screens over the conversation, one thing each: checkpoints, costs, models, modes, tasks, help.

`SideScreen` and `ListScreen` are the bases.
"""
