"""Lists that open below the input area: commands, files, sessions, shortcuts.

`Picker` is the base class; `own_commands` holds the slash commands of the full screen.
"""
