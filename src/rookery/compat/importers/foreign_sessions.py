"""What the formats share: sessions that were found, entries, and reading files that may be damaged.

A damaged line or record is counted in `Problems` and left out; the rest is read. Claude Code, Roo
Code, Cline and Kilo store messages in the format of Anthropic's API, which is read here too.
"""

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from rookery.core.blocks import PICTURE_LEFT_OUT, SHOWN_TYPES, Image, Text, ToolCall, image_facts
from rookery.core.facts import Usage
from rookery.core.limits import KIB, MIB
from rookery.core.text.characters import whole
from rookery.platform.disk import reason

LONGEST_LINE = 64 * MIB
LARGEST_FILE = 256 * MIB
"""Of a file that cannot be read piece by piece, such as one JSON value."""
TOO_LARGE = f"larger than {LARGEST_FILE // MIB} MiB"
HEAD = 256 * KIB
REASONS_KEPT = 5
_LATEST = 4_102_444_800_000
"""Milliseconds until 2100. A later time would move everything after it."""
_MOST_TOKENS = 10**12
Record: TypeAlias = dict[str, Any]


class ForeignSession(Struct, frozen=True, kw_only=True):
    """A session of another agent; `path` is its file or folder. `updated` is in milliseconds."""

    agent: str
    id: str
    path: Path
    folder: str = ""
    """Where it worked; empty if that is unknown."""
    folder_hash: str = ""
    """The SHA-256 of that folder's path, if only this is known."""
    title: str = ""
    updated: int = 0
    size: int = 0


class UserEntry(Struct, frozen=True, kw_only=True):
    text: str
    images: tuple[Image, ...] = ()
    ts: int = 0


class AgentEntry(Struct, frozen=True, kw_only=True):
    """A part of an answer. Parts with the same `request` repeat its usage."""

    blocks: tuple[Text | ToolCall, ...] = ()
    model: str = ""
    usage: Usage = Usage()
    request: str = ""
    ts: int = 0


class ResultEntry(Struct, frozen=True, kw_only=True):
    call_id: str
    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False
    ts: int = 0


class SummaryEntry(Struct, frozen=True, kw_only=True):
    """The other agent replaced everything before this with a summary."""

    text: str
    ts: int = 0


class RewindEntry(Struct, frozen=True, kw_only=True):
    """The user took back the last messages and everything since."""

    messages: int
    ts: int = 0


Entry: TypeAlias = UserEntry | AgentEntry | ResultEntry | SummaryEntry | RewindEntry


class Problems:
    """How much could not be read, with the first reasons."""

    def __init__(self) -> None:
        self.count = 0
        self.reasons: list[str] = []

    def add(self, where: str, why: str) -> None:
        self.count += 1
        if len(self.reasons) < REASONS_KEPT:
            self.reasons.append(f"{where}: {why}")


class Importer(Struct, frozen=True, kw_only=True):
    """One source of sessions."""

    name: str
    title: str
    roots: Callable[[Path, Mapping[str, str]], Sequence[Path]]
    """The folders where the agent stores sessions, by home folder and environment."""
    find: Callable[[Path], Iterator[ForeignSession]]
    """The sessions below a folder. Reads no more than their beginnings."""
    read: Callable[[ForeignSession, Problems], Iterator[Entry]]


def files_below(root: Path, *patterns: str) -> list[Path]:
    """The regular files, in order. What cannot be looked at is left out."""
    found: set[Path] = set()
    with suppress(OSError):
        found.update(chain.from_iterable(map(root.glob, patterns)))
    return sorted(path for path in found if os.path.isfile(path))


def json_lines(path: Path, problems: Problems) -> Iterator[Record]:
    """The objects in a JSONL file, one line in memory at a time."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file.readline), 1):
                if len(line) >= LONGEST_LINE:
                    problems.add(f"line {number}", f"longer than {LONGEST_LINE // MIB} MiB")
                elif line.strip() and (value := _decoded(line, f"line {number}", problems)):
                    yield value
    except OSError as error:
        problems.add(path.name, reason(error))


def _lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Lines up to the limit; the rest of a longer one is skipped."""
    while line := readline(LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n") and len(rest) == LONGEST_LINE:
            rest = readline(LONGEST_LINE)
        yield line


def _decoded(data: bytes, where: str, problems: Problems) -> Record | None:
    try:
        value = decode(data)
    except (ValueError, RecursionError):
        problems.add(where, "not valid JSON")
        return None
    if isinstance(value, dict):
        return value
    problems.add(where, "not a JSON object")
    return None


def decode(data: bytes) -> Any:
    """The JSON value. Halves of characters, which some programs write, become replacement
    characters."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        spelled = json.dumps(json.loads(data), ensure_ascii=False)
        return msgspec.json.decode(whole(spelled).encode())


def json_file(path: Path, problems: Problems) -> Record:
    """The object in a file; empty if it cannot be read."""
    data = _content(path, problems)
    return (_decoded(data, path.name, problems) if data else None) or {}


def json_array(path: Path, problems: Problems) -> list[Record]:
    """The objects in an array. Of a damaged file, those before the damage."""
    data = _content(path, problems)
    try:
        value = decode(data) if data else []
    except (ValueError, RecursionError):
        value = _before_damage(data.decode("utf-8", "replace"))
        problems.add(path.name, f"damaged after {len(value)} records")
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _content(path: Path, problems: Problems) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            problems.add(path.name, TOO_LARGE)
            return b""
        return path.read_bytes()
    except OSError as error:
        problems.add(path.name, reason(error))
        return b""


def _before_damage(text: str) -> list[Any]:
    found: list[Any] = []
    decoder, at = json.JSONDecoder(), text.find("[") + 1
    while at:
        while text[at : at + 1] in set(" \t\r\n,"):
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(decode(json.dumps(value).encode()))
        except (ValueError, RecursionError):
            break
    return found


def first_records(path: Path) -> list[Record]:
    """The records at the beginning of a JSONL file, for a list."""
    skipped = Problems()
    lines = _head(path).split(b"\n")
    return [found for line in lines if (found := _decoded(line, "", skipped))]


def beginning(path: Path) -> str:
    """The first text of a file; empty if it cannot be read."""
    return _head(path).decode("utf-8", "replace")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def measured(path: Path) -> tuple[int, int]:
    """When a file was changed, in milliseconds, and its size; zeros if it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns // 1_000_000, found.st_size


def milliseconds(value: object) -> int:
    """A time as agents write it: ISO 8601 or milliseconds. 0 if it is not plausible."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value).timestamp() * 1000
        except (ValueError, OverflowError):
            return 0
    return int(value) if isinstance(value, int | float) and 0 < value < _LATEST else 0


def number(value: object) -> int:
    """A number of tokens; 0 if it is not plausible."""
    return int(value) if isinstance(value, int | float) and 0 < value < _MOST_TOKENS else 0


def dollars(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < _MOST_TOKENS else None


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def record(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def records(value: object) -> list[Record]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def inline_image(data: object) -> Image | None:
    """The image in base64 or a data URL; None if a model would not accept it."""
    spelled = text(data)
    if spelled.startswith("data:"):
        spelled = spelled.partition(";base64,")[2]
    try:
        facts = image_facts(base64.b64decode(spelled, validate=True))
    except ValueError:
        return None
    if not facts or facts.media_type not in SHOWN_TYPES or not facts.pixels:
        return None
    return Image(media_type=facts.media_type, data=spelled)


def with_images(
    words: Sequence[str], images: Sequence[Image | None]
) -> tuple[str, tuple[Image, ...]]:
    """The text, with a note for each image that cannot be kept."""
    kept = tuple(each for each in images if each)
    notes = [PICTURE_LEFT_OUT] * (len(images) - len(kept))
    return "\n".join([*filter(None, words), *notes]), kept


def user_entries(content: object, ts: int) -> Iterator[Entry]:
    """Results first, as the API demands, then what the user said."""
    blocks = blocks_of(content)
    for block in blocks:
        if block.get("type") == "tool_result":
            yield _result(block, ts)
    words, images = _words_and_images(blocks)
    if words or images:
        yield UserEntry(text=words, images=images, ts=ts)


def blocks_of(content: object) -> list[Record]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return records(content)


def agent_entry(message: Record, *, ts: int, usage: Usage, request: str = "") -> AgentEntry:
    """An answer without its reasoning, which only its own provider could verify."""
    blocks = blocks_of(message.get("content"))
    said = tuple(found for block in blocks if (found := _said(block)))
    model = text(message.get("model"))
    return AgentEntry(blocks=said, model=model, usage=usage, request=request, ts=ts)


def usage_of(usage: object, cost: object = None) -> Usage:
    known = record(usage)
    reads = number(known.get("cache_read_input_tokens"))
    writes = number(known.get("cache_creation_input_tokens"))
    return Usage(
        tokens_in=number(known.get("input_tokens")) + reads + writes,
        tokens_out=number(known.get("output_tokens")),
        cache_reads=reads,
        cache_writes=writes,
        cost=dollars(cost),
    )


def _said(block: Record) -> Text | ToolCall | None:
    match block:
        case {"type": "text", "text": str(words)} if words.strip():
            return Text(text=words)
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            return ToolCall(id=call_id, name=name, arguments=record(block.get("input")))
        case _:
            return None


def _result(block: Record, ts: int) -> ResultEntry:
    words, images = _words_and_images(blocks_of(block.get("content")))
    return ResultEntry(
        call_id=text(block.get("tool_use_id")),
        text=words,
        images=images,
        failed=block.get("is_error") is True,
        ts=ts,
    )


def _words_and_images(blocks: list[Record]) -> tuple[str, tuple[Image, ...]]:
    words: list[str] = []
    images: list[Image | None] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(said)}:
                words.append(said)
            case {"type": "image"}:
                images.append(inline_image(record(block.get("source")).get("data")))
            case _:
                pass
    return with_images(words, images)
