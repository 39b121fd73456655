"""What an examination of the installation finds: how things stand, and what to do about it."""

from enum import StrEnum

from msgspec import Struct


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works, with less than one might expect."""
    BAD = "bad"


class Finding(Struct, frozen=True):
    """`text` is a sentence or a few words; `todo` what the user can do, if anything."""

    name: str
    health: Health
    text: str
    todo: str = ""
