"""The characters that mean something at the beginning of a line, or of a word."""

from msgspec import Struct


class Trigger(Struct, frozen=True):
    char: str
    what: str


TRIGGERS = (
    Trigger("/", "commands"),
    Trigger("@", "names a file or a folder, anywhere in a line"),
    Trigger("!", "runs a command in your own shell"),
    Trigger("#", "looks for words in earlier tasks"),
    Trigger("?", "keys and what they do"),
)
