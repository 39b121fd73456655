"""Everything a client may request. Commands are imperative, facts are in the past tense.

A command is rejected at once or leads to facts in the task's log. It returns nothing: a client
learns its effect from the log, like every other client.

An unknown field is an error, never ignored: `auto_aprove: false` would start an agent that acts
without asking. A repeated field is an error too, because parsers disagree about which one counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import fields

from rookery.core.asks import Choice, Reply
from rookery.core.blocks import Image
from rookery.core.limits import Effort
from rookery.core.modes import Level

KIND = "kind"
_LONGEST_SHOWN = 60
_NEARLY = 0.85


def unknown_field(given: Iterable[str], known: Iterable[str]) -> str:
    """A clause about the first unknown field and the closest known one; empty if all are known."""
    names = list(known)
    for name in given:
        if name not in names:
            return _clause(name, names)
    return ""


def misspelled_field(given: Iterable[str], known: Sequence[str]) -> str:
    """A clause about the first field that is almost a known one; empty if none. For foreign
    formats, where other fields are allowed."""
    from difflib import get_close_matches

    for name in given:
        if name not in known and (near := get_close_matches(name, known, n=1, cutoff=_NEARLY)):
            return f"has no field {name!r}; did you mean {near[0]!r}?"
    return ""


def unknown_field_within(given: object, read: object) -> str:
    """The same for the whole JSON value that was `read`, at any depth."""
    if isinstance(read, Struct) and isinstance(given, Mapping):
        names = [field.name for field in fields(read)]
        here = unknown_field((each for each in given if each != KIND), names)
        return here or _first(_parts(given, read, names))
    if isinstance(read, tuple | list) and isinstance(given, Sequence):
        return _first(zip(given, read, strict=False))
    return ""


class _Repeated(Exception):
    """An object has this field twice."""


def repeated_field(text: bytes | str) -> str:
    """A clause about the first repeated field in this JSON; empty if none."""
    import json

    try:
        json.loads(text, object_pairs_hook=_with_each_once)
    except _Repeated as found:
        return f"has the field {_shortened(str(found))!r} twice."
    except (ValueError, RecursionError):  # its reader reports that
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
    """The first model; the default one if empty. Without a provider, a model of the default
    provider."""
    effort: Effort | None = None
    """The reasoning effort of this model; None for that of the settings."""
    automatic: bool | None = None
    """Whether actions are auto-approved; None for the default."""
    intent: str = ""
    """The id of the intent to select at the start."""
    level: Level | None = None
    """The level to start with, instead of `automatic`."""


class ReopenTask(Struct, frozen=True, kw_only=True):
    """Continue a task. Without a level, it has the one that the host was started with."""

    task_id: str
    level: Level | None = None


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
    """Add the rule in the question."""
    prefix: bool = False
    """Add the question's rule for all commands that begin like this one."""
    level: Level | None = None
    """Approve the plan in the question, or `text` instead of it, and carry it out at this level."""
    choice: Choice | None = None
    """A choice beyond yes and no, if the question offers it."""
    message_id: str = ""
    """Identifies the text, so that a second delivery is ignored."""


class Speak(Struct, frozen=True, kw_only=True):
    """A message for the model, delivered with the next request. It answers no question."""

    task_id: str
    message_id: str
    text: str
    images: tuple[Image, ...] = ()


class EditQueue(Struct, frozen=True, kw_only=True):
    """Change a queued message; without a text, remove it."""

    task_id: str
    message_id: str
    text: str | None = None


class Cancel(Struct, frozen=True, kw_only=True):
    """Cancel the current step. The task stays open and asks whether to continue."""

    task_id: str


class RetryNow(Struct, frozen=True, kw_only=True):
    """Retry now instead of waiting."""

    task_id: str


class Condense(Struct, frozen=True, kw_only=True):
    """Summarise the older part of the conversation, although it still fits."""

    task_id: str


class CloseTask(Struct, frozen=True, kw_only=True):
    task_id: str


class Rewind(Struct, frozen=True, kw_only=True):
    """Rewind the conversation to event `to`."""

    task_id: str
    to: int


class RestoreFiles(Struct, frozen=True, kw_only=True):
    """Restore the files as of event `to`. Files that someone else changed since are restored
    only with `overwrite`."""

    task_id: str
    to: int
    overwrite: bool = False


class StopCommand(Struct, frozen=True, kw_only=True):
    """Stop a background command."""

    task_id: str
    call_id: str


class SwitchMode(Struct, frozen=True, kw_only=True):
    task_id: str
    mode: str


class SwitchModel(Struct, frozen=True, kw_only=True):
    """Use another model for the rest of the task and its sub-tasks. The default effort is that of
    the settings."""

    task_id: str
    provider: str
    model: str
    effort: Effort | None = None


class SwitchApproval(Struct, frozen=True, kw_only=True):
    """Change the level of a task and its sub-tasks. Without a level, `automatic` stands for auto
    or ask."""

    task_id: str
    automatic: bool | None = None
    level: Level | None = None


class RemoveRule(Struct, frozen=True, kw_only=True):
    """Remove a rule that the user added with *always*."""

    task_id: str
    rule_id: str


class SelectIntent(Struct, frozen=True, kw_only=True):
    """Select an intent for the task; without an id, clear it."""

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
    | RemoveRule
    | SelectIntent
    | DeleteTask
)
