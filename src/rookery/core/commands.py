"""Everything a client may request. Imperative, where facts are in the past tense.

A command is either refused at once or leads to facts in the task's log. Nothing is
returned: a client learns what became of its command the way everybody else does.

A field that a request does not have is named, never dropped: `auto_aprove: false` would start an
agent that acts without asking. So is a field that is there twice, as readers take one of its
values, and it may be the wrong one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import fields

from rookery.core.asks import Choice, Reply
from rookery.core.blocks import Image

KIND = "kind"
_LONGEST_SHOWN = 60
_NEARLY = 0.85


def unknown_field(given: Iterable[str], known: Iterable[str]) -> str:
    """A clause about the first field that is not known, with the nearest that is; or nothing."""
    names = list(known)
    for name in given:
        if name not in names:
            return _clause(name, names)
    return ""


def misspelled_field(given: Iterable[str], known: Sequence[str]) -> str:
    """A clause about the first field that is nearly a known one; or nothing. For formats of
    others, whose own fields are to be let through."""
    from difflib import get_close_matches

    for name in given:
        if name not in known and (near := get_close_matches(name, known, n=1, cutoff=_NEARLY)):
            return f"has no field {name!r}; did you mean {near[0]!r}?"
    return ""


def unknown_field_within(given: object, read: object) -> str:
    """The same for all that a value was `read` from, however deep."""
    if isinstance(read, Struct) and isinstance(given, Mapping):
        names = [field.name for field in fields(read)]
        here = unknown_field((each for each in given if each != KIND), names)
        return here or _first(_parts(given, read, names))
    if isinstance(read, tuple | list) and isinstance(given, Sequence):
        return _first(zip(given, read, strict=False))
    return ""


class _Repeated(Exception):
    """Some object has this field twice."""


def repeated_field(text: bytes | str) -> str:
    """A clause about the first field that an object in this JSON has twice; or nothing."""
    import json

    try:
        json.loads(text, object_pairs_hook=_with_each_once)
    except _Repeated as found:
        return f"has the field {_shortened(str(found))!r} twice."
    except (ValueError, RecursionError):  # whoever reads it says so
        return ""
    return ""


def _with_each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, given in pairs:
        if name in read:
            raise _Repeated(name)
        read[name] = given
    return read


def _parts(given: Mapping[str, Any], read: Any, names: Iterable[str]) -> list[tuple[Any, Any]]:
    return [(given[name], getattr(read, name)) for name in names if name in given]


def _first(parts: Iterable[tuple[Any, Any]]) -> str:
    found = (unknown_field_within(given, read) for given, read in parts)
    return next((clause for clause in found if clause), "")


def _clause(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    shown = _shortened(name)
    if near := get_close_matches(name.lower(), known, n=1, cutoff=0.6):
        return f"has no field {shown!r}; did you mean {near[0]!r}?"
    listed = ", ".join(known)
    return f"has no field {shown!r}; it has {listed}." if listed else f"has no field {shown!r}."


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"


class OpenTask(Struct, frozen=True, kw_only=True):
    """The client picks the id, so sending the same command twice opens one task."""

    task_id: str
    text: str
    images: tuple[Image, ...] = ()
    mode: str = "code"
    provider: str = ""
    model: str = ""
    """The model to begin with; the usual one if there is none. Without a provider, one of the
    usual provider."""
    automatic: bool | None = None
    """Whether it acts without asking, if that is not as usual."""
    intent: str = ""
    """The id of the intent that it works for from the beginning."""


class ReopenTask(Struct, frozen=True, kw_only=True):
    task_id: str


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to one question, named by its id and the digest of what it would allow."""

    task_id: str
    ask_id: str
    reply: Reply
    text: str = ""
    images: tuple[Image, ...] = ()
    digest: str = ""
    by: Literal["user", "policy"] = "user"
    always: bool = False
    """Allow from now on what the question's rule says."""
    choice: Choice | None = None
    """What goes beyond yes or no, if the question offers it."""
    message_id: str = ""
    """Names its words, if they may have been sent before: then they are not heard again."""


class Speak(Struct, frozen=True, kw_only=True):
    """Words for the model, to be heard at the next opportunity. They answer no question."""

    task_id: str
    message_id: str
    text: str
    images: tuple[Image, ...] = ()


class EditQueue(Struct, frozen=True, kw_only=True):
    """Change words that have not been heard yet; no text takes them back."""

    task_id: str
    message_id: str
    text: str | None = None


class Cancel(Struct, frozen=True, kw_only=True):
    """Stop what is being done. The task stays open and asks whether to go on."""

    task_id: str


class RetryNow(Struct, frozen=True, kw_only=True):
    """Do not wait any longer for the next try."""

    task_id: str


class Condense(Struct, frozen=True, kw_only=True):
    """Have the older part of the conversation summarised, although it still fits."""

    task_id: str


class CloseTask(Struct, frozen=True, kw_only=True):
    task_id: str


class Rewind(Struct, frozen=True, kw_only=True):
    """Take the conversation back to event `to`."""

    task_id: str
    to: int


class RestoreFiles(Struct, frozen=True, kw_only=True):
    """Put back the files as they were at event `to`; those that somebody else has changed
    since only with `overwrite`.
    """

    task_id: str
    to: int
    overwrite: bool = False


class StopCommand(Struct, frozen=True, kw_only=True):
    """End a command that runs on behind its call."""

    task_id: str
    call_id: str


class SwitchMode(Struct, frozen=True, kw_only=True):
    task_id: str
    mode: str


class SwitchModel(Struct, frozen=True, kw_only=True):
    """Have another model do the rest of the task, and of those that work for it."""

    task_id: str
    provider: str
    model: str


class SwitchApproval(Struct, frozen=True, kw_only=True):
    """Whether actions of a task, and of those that work for it, need a yes from now on."""

    task_id: str
    automatic: bool


class SelectIntent(Struct, frozen=True, kw_only=True):
    """Have the task work for an intent; without an id for none."""

    task_id: str
    intent_id: str = ""


class DeleteTask(Struct, frozen=True, kw_only=True):
    task_id: str


Command: TypeAlias = (
    OpenTask
    | ReopenTask
    | Answer
    | Speak
    | EditQueue
    | Cancel
    | RetryNow
    | Condense
    | CloseTask
    | Rewind
    | RestoreFiles
    | StopCommand
    | SwitchMode
    | SwitchModel
    | SwitchApproval
    | SelectIntent
    | DeleteTask
)
