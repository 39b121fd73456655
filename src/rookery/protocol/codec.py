"""Events, commands and queries as JSON, and back.

A value is an object whose `kind` is the snake-case name of its class. An event is its fact's object
with `seq`, `sub` and `ts`. Readers of events ignore unknown fields and keep unknown facts as
`Unrecognised`. A command or query with an unknown field is rejected, because it would do something
other than intended.
"""

import json
import re
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, get_args

import msgspec
from msgspec.structs import fields as fields_of

from rookery.core.blocks import Block
from rookery.core.commands import KIND, Command, unknown_field, unknown_field_within
from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Event,
    Fact,
    StopReason,
    Unrecognised,
    Usage,
)
from rookery.core.text.characters import whole_values
from rookery.core.text.terminal_text import counted
from rookery.errors import CommandRejected
from rookery.first_use import prepared

if TYPE_CHECKING:
    from rookery.core.queries import Asking, Query

T = TypeVar("T")


class Host(Protocol):
    """What a client talks to: an engine in this process, or a remote one."""

    async def send(self, command: Command) -> None:
        """Request something. Raises `CommandRejected` if it cannot be done now."""
        ...

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The task's events after `after`: existing ones, then new ones. Raises
        `CommandRejected` if the task is not open."""
        ...

    async def query(self, query: "Asking[T]") -> T:
        """Answer a query. Raises `CommandRejected` if it cannot."""
        ...


Request = TypeVar("Request", bound=msgspec.Struct)

PROTOCOL = 1
LARGEST_NUMBER = 2**62
"""Largest event number or time in milliseconds; more does not fit into the index."""


def kind_of(cls: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


BLOCKS: dict[str, type[Any]] = {kind_of(cls): cls for cls in get_args(Block)}
FACTS: dict[str, type[Any]] = {
    kind_of(cls): cls for cls in get_args(Fact) if cls is not Unrecognised
}
COMMANDS: dict[str, type[Any]] = {kind_of(cls): cls for cls in get_args(Command)}
_KIND = {cls: kind.encode() for group in (BLOCKS, FACTS) for kind, cls in group.items()}
_FORMER: dict[str, type[Any]] = {"truncated": Condensed}
"""Former names of facts in old journals."""
_encode_strictly = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _EventFields(msgspec.Struct):
    """The fields of every event. `_number` checks the numbers."""

    seq: Any
    sub: Any
    ts: Any
    kind: Any


class _AnswerFields(msgspec.Struct):
    """The fields of an `AssistantSpoke`. Its blocks are stored without a tag."""

    request_id: Any
    blocks: Any
    stop: StopReason = StopReason.UNKNOWN
    usage: Usage = Usage()
    interrupted: Any = False
    written: Any = ""


_OF_EVENTS = ("seq", "sub", "ts")
"""No fact has a field of such a name."""
_read_head = msgspec.json.Decoder(_EventFields).decode
_read_answer = msgspec.json.Decoder(_AnswerFields).decode


@cache
def queries() -> dict[str, type[Any]]:
    """The queries by kind. Journals need this module too, and no queries."""
    from rookery.core.queries import Query

    return {kind_of(cls): cls for cls in get_args(Query)}


def _encode(value: object) -> bytes:
    try:
        return _encode_strictly(value)
    except UnicodeEncodeError:
        # half of a surrogate pair has no UTF-8; models and file names bring them all the same
        return _encode_strictly(whole_values(msgspec.to_builtins(value)))


def event_to_json(event: Event) -> bytes:
    head = b'{"seq":%d,"sub":%d,"ts":%d,' % (event.seq, event.sub, event.ts)
    return head + _fact_to_json(event.fact)[1:]


def event_from_json(text: bytes | str) -> Event:
    """Raises `ValueError` if it is not an event."""
    try:
        head = _read_head(text)
        fact = _fact_from(text, head.kind)
        return Event(_number(head.seq), _number(head.sub), _number(head.ts), fact)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"This is not an event: {error}") from error
    except RecursionError as error:
        raise ValueError("This is not an event: it is nested too deeply") from error


def _number(value: object) -> int:
    if type(value) is int and 0 <= value <= LARGEST_NUMBER:
        return value
    raise TypeError("a number is invalid or out of range")


def command_to_json(command: Command) -> bytes:
    return _encode({KIND: kind_of(type(command)), **given_fields(command)})


def command_from_json(fields: dict[str, Any]) -> Command:
    """Parse a command from decoded JSON. Raises `CommandRejected` with the reason."""
    return cast(Command, _request_from(fields, COMMANDS, "command"))


def query_to_json(query: "Asking[Any]") -> bytes:
    return _encode({KIND: kind_of(type(query)), **given_fields(query)})


def given_fields(request: msgspec.Struct) -> dict[str, Any]:
    """Its fields without default values, so that an older host does not get unknown fields."""
    fields = fields_of(request)
    held = {field.name: (getattr(request, field.name), field.default) for field in fields}
    return {name: value for name, (value, usual) in held.items() if value != usual}


def query_from_json(fields: dict[str, Any]) -> "Query":
    """Parse a query from decoded JSON. Raises `CommandRejected` with the reason."""
    return cast("Query", _request_from(fields, queries(), "query"))


def answer_to_json(answer: object) -> bytes:
    return _encode(answer)


def answer_from_json(query: "Asking[T]", answer: object) -> T:
    """Parse the answer to a query from decoded JSON. Raises `ValueError`."""
    (asking,) = (base for base in type(query).__orig_bases__)  # type: ignore[attr-defined]
    try:
        return cast(T, msgspec.convert(answer, prepared(get_args(asking)[0])))
    except msgspec.ValidationError as error:
        raise ValueError(f"The answer to {kind_of(type(query))} is malformed: {error}") from error


def _request_from(fields: dict[str, Any], kinds: dict[str, type[Any]], what: str) -> object:
    cls = kinds.get(str(fields.get("kind")))
    if cls is None:
        raise CommandRejected(f"Unknown {what}: {fields.get('kind')!r}.")
    return read_request(fields, cls, what)


def read_request(fields: dict[str, Any], cls: type[Request], what: str) -> Request:
    """Raises `CommandRejected` with the reason if it is malformed or has an unknown field."""
    named = f"The {what} {fields['kind']}"
    known = [each.name for each in fields_of(cls)]
    if unknown := unknown_field((name for name in fields if name != KIND), known):
        raise CommandRejected(f"{named} {unknown} Nothing was done.")
    try:
        read = msgspec.convert(fields, prepared(cls))
    except msgspec.ValidationError as error:
        raise CommandRejected(f"{named} is malformed: {error}.") from error
    if unknown := unknown_field_within(fields, read):
        raise CommandRejected(f"{named} {unknown} Nothing was done.")
    return read


def _fact_to_json(fact: Fact) -> bytes:
    if isinstance(fact, Unrecognised):
        return fact.raw.encode()
    if isinstance(fact, AssistantSpoke):
        # blocks have no tag of their own, so each is tagged here
        blocks = [msgspec.Raw(_tagged(block)) for block in fact.blocks]
        rest = {name: getattr(fact, name) for name in ("request_id", "stop", "usage")}
        fields = {"kind": "assistant_spoke", **rest, "blocks": blocks}
        written = {"written": fact.written} if fact.written else {}
        return _encode({**fields, "interrupted": fact.interrupted, **written})
    return _tagged(fact)


def _tagged(value: object) -> bytes:
    body = _encode(value)
    rest = b"," + body[1:] if len(body) > 2 else b"}"
    return b'{"kind":"%b"%b' % (_KIND[type(value)], rest)


def _fact_from(text: bytes | str, kind: str) -> Fact:
    """The fact of an event. Its fields are beside those of the event."""
    cls = FACTS.get(kind) or _FORMER.get(kind)
    if cls and cls is not AssistantSpoke:
        return cast(Fact, _reader_of(kind)(text))
    if cls is None:
        fields = _decode(text)
        own = {name: value for name, value in fields.items() if name not in _OF_EVENTS}
        return Unrecognised(name=str(kind), raw=_encode(own).decode())
    answer = _read_answer(text)
    return AssistantSpoke(
        request_id=str(answer.request_id),
        blocks=tuple(map(_block_from, answer.blocks)),
        stop=answer.stop,
        usage=answer.usage,
        interrupted=bool(answer.interrupted),
        written=str(answer.written),
    )


@cache
def _reader_of(kind: str) -> Callable[[bytes | str], Any]:
    cls = FACTS.get(kind) or _FORMER[kind]
    return msgspec.json.Decoder(prepared(cls)).decode


def _block_from(fields: dict[str, Any]) -> Block:
    return cast(Block, msgspec.convert(fields, prepared(BLOCKS[fields["kind"]])))


class OfferedAnswer(msgspec.Struct, frozen=True):
    """An answer that a model suggests, and the mode it suggests with it."""

    answer: str
    mode: str = ""


def followup(text: str) -> tuple[str, list[str]]:
    """The question and suggested answers of a follow-up. Plain text has no suggestions."""
    question, offered = _read(text)
    return question, [each.answer for each in offered]


def suggestions(text: str) -> list[OfferedAnswer]:
    return _read(text)[1]


def _read(text: str) -> tuple[str, list[OfferedAnswer]]:
    try:
        said = json.loads(text)
        return str(said["question"]), [_suggestion(each) for each in said.get("suggest", [])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text, []


def _suggestion(said: Any) -> OfferedAnswer:
    if isinstance(said, dict):
        return OfferedAnswer(str(said["answer"]), str(said.get("mode") or ""))
    return OfferedAnswer(str(said))


def chosen(answer: str, offered: list[OfferedAnswer]) -> OfferedAnswer:
    """The suggestion with this number; any other text is an answer itself."""
    answer = answer.strip()
    if answer.isdecimal() and 1 <= int(answer) <= len(offered):
        return offered[int(answer) - 1]
    return OfferedAnswer(answer)


_CEILINGS = {
    "requests": "This session has reached its limit of {requests} (max_requests).",
    "cost": "This session has reached its limit of ${count:.2f} (max_cost).",
    "tokens": "This session has reached its limit of {count:,.0f} tokens (max_tokens).",
    "seconds": "This session has reached its limit of {minutes:.3g} minutes of work (max_minutes).",
}


def ceiling(text: str) -> str:
    """The limit that a session has reached, as a sentence."""
    try:
        said = json.loads(text)
        count = float(said["count"])
        requests = counted(round(count), "request")
        return _CEILINGS[said["type"]].format(count=count, requests=requests, minutes=count / 60)
    except (ValueError, OverflowError, KeyError, TypeError, RecursionError):
        return "This session has reached its limit."
