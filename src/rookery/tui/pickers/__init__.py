"""Lists below the input area: commands, files, tasks, shortcuts.

`Picker` is the base, `own_commands` are the commands of the full screen itself.
"""
