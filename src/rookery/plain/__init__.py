"""The line client: a task on a plain terminal, in a pipe or in a file.

`PlainDisplay` shows facts, `Prompter` asks, `Keyboard` reads lines without blocking. It talks
to a host through `protocol` and knows no engine.
"""
