"""The line client: shows a session on a plain terminal, in a pipe or in a file.

`PlainDisplay` prints facts, `Prompter` asks questions, `Keyboard` reads lines without blocking. The
package talks to a host through `protocol` and does not import the engine.
"""
