"""The steps since the user's last message, read from the conversation."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.folds.history import Turn

LIST, READ, SEARCH, RUN = "list_files", "read_file", "search_files", "execute_command"
WRITE, PATCH = "write_to_file", "apply_patch"

ATTEMPT = re.compile(r"^Attempt (\d{1,3})\b", re.MULTILINE)
"""The words with which an attempt begins; the number tells which approach was used."""
RESTORING = "Restoring the files."
"""The words with which the files of all attempts are restored."""
LONGEST_TASK = 4_000

_MESSAGE = re.compile(r"<user_message>\n(.*?)\n</user_message>", re.DOTALL)
_LINE = re.compile(r" *\d+ \| ?(.*)")
_EXIT = re.compile(r"^Exit code: (-?\d+)", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:\n", re.MULTILINE)
_SKIPPED_FOLDERS = re.compile(r"\(Not searched: ([^)]*)\)")
_DELETED = re.compile(r"^\*\*\* Delete File: (.+)$", re.MULTILINE)


class CommandRun(Struct, frozen=True):
    """A command that ran; `code` is None if it did not end by itself or was not run."""

    command: str
    code: int | None
    output: str


class Attempt(Struct, frozen=True):
    """One set of edits and the checks that followed. The text of a deleted file is None."""

    number: int
    """Of the approach; 0 for a rename without the model."""
    edits: Mapping[str, str | None]
    """Those that were made."""
    checks: Sequence[CommandRun]
    refusal: str = ""
    """Why an edit was not made; empty if all were."""
    restores: bool = False
    """Whether it restored the files of earlier attempts and did nothing else."""


class Record(Struct, frozen=True, kw_only=True):
    task: str
    earlier: str = ""
    """The conversation before the user's last message, shortened."""
    listed: bool = False
    paths: Sequence[str] = ()
    searched: bool = False
    hits: Mapping[str, int] = {}
    """How many lines of each file matched the search."""
    found: str = ""
    """What the search found."""
    read: bool = False
    files: Mapping[str, str] = {}
    """Text of the files that were read whole, as they were before the first attempt."""
    runs: Sequence[CommandRun] = ()
    """Commands before the first attempt."""
    attempts: Sequence[Attempt] = ()


def read_record(turns: Sequence[Turn]) -> Record:
    start, task = _last_message(turns)
    listed = read = searched = False
    paths: dict[str, None] = {}
    hits: dict[str, int] = {}
    found = ""
    files: dict[str, str] = {}
    runs: list[CommandRun] = []
    attempts: list[Attempt] = []
    for words, calls in _answers(turns[start:]):
        edits: dict[str, str | None] = {}
        checks: list[CommandRun] = []
        refusal = ""
        is_attempt = False
        for call, result in calls:
            match call.name:
                case "list_files":
                    listed = True
                    if not result.is_error:
                        paths |= dict.fromkeys(
                            _paths(result.text, str(call.arguments.get("path", ".")))
                        )
                case "search_files":
                    searched = True
                    hits = {**hits, **_hits(result.text)}
                    found += result.text if hits else ""
                case "read_file":
                    read = True
                    files |= _whole_files(result.text)
                case "execute_command":
                    checks.append(_run(str(call.arguments.get("command", "")), result))
                case "write_to_file" | "apply_patch":
                    is_attempt = True
                    edits |= {} if result.is_error else _edits(call)
                    refusal = refusal or (result.text if result.is_error else "")
        if is_attempt:
            number = ATTEMPT.search(words)
            shown = int(number[1]) if number else 0
            restores = number is None and RESTORING in words  # a plan may hold these words too
            attempts.append(Attempt(shown, edits, checks, refusal, restores))
        elif not attempts:
            runs += checks
    return Record(
        task=task[:LONGEST_TASK],
        earlier=_words_before(turns[:start]),
        listed=listed,
        paths=list(paths),
        searched=searched,
        hits=hits,
        found=found,
        read=read,
        files=files,
        runs=runs,
        attempts=attempts,
    )


def skipped_folders(listing: str) -> list[str]:
    """Folders that a listing names without their files."""
    found = _SKIPPED_FOLDERS.search(listing)
    return [name.strip().rstrip("/") for name in found[1].split(",")] if found else []


def _last_message(turns: Sequence[Turn]) -> tuple[int, str]:
    """The number of the turn with the user's last message, and its text."""
    for number in reversed(range(len(turns))):
        if turns[number].role == "user" and (said := _messages(turns[number])):
            return number, "\n\n".join(said)
    return 0, ""


def _messages(turn: Turn) -> list[str]:
    texts = [block.text for block in turn.blocks if isinstance(block, Text)]
    return [found[1].strip() for text in texts for found in _MESSAGE.finditer(text)]


def _words_before(turns: Sequence[Turn]) -> str:
    """The last question and answer before the task, shortened."""
    said = [words for turn in turns if turn.role == "user" for words in _messages(turn)]
    answers = [
        block.text
        for turn in turns
        if turn.role == "assistant"
        for block in turn.blocks
        if isinstance(block, Text)
    ]
    return "\n".join(each[:300] for each in [*said[-1:], *answers[-1:]])


def _answers(turns: Sequence[Turn]) -> Iterator[tuple[str, list[tuple[ToolCall, ToolResult]]]]:
    """The words and the answered calls of each answer."""
    results = {
        block.call_id: block
        for turn in turns
        for block in turn.blocks
        if isinstance(block, ToolResult)
    }
    for turn in turns:
        if turn.role != "assistant":
            continue
        words = "\n".join(block.text for block in turn.blocks if isinstance(block, Text))
        calls = [block for block in turn.blocks if isinstance(block, ToolCall)]
        yield words, [(call, results[call.id]) for call in calls if call.id in results]


def _paths(listing: str, folder: str) -> Iterator[str]:
    for line in listing.splitlines():
        if line and not line.startswith("(") and not line.endswith("/"):
            yield line if folder in ("", ".") else f"{folder.rstrip('/')}/{line}"


def _hits(text: str) -> dict[str, int]:
    hits: dict[str, int] = {}
    path = ""
    for line in text.splitlines():
        if line.startswith("# "):
            path = line[2:].strip()
        elif path and _LINE.fullmatch(line.strip(" ")):
            hits[path] = hits.get(path, 0) + 1
    return hits


def _whole_files(text: str) -> Iterator[tuple[str, str]]:
    """The files in a result of read_file that are shown from the first to the last line."""
    for section in re.split(r"^---$\n?", text, flags=re.MULTILINE):
        head, _, body = section.strip("\n").partition("\n")
        lines = [_LINE.fullmatch(line) for line in body.split("\n")]
        if head.startswith("File: ") and all(lines):
            yield head.removeprefix("File: "), "".join(f"{line[1]}\n" for line in lines if line)


def _run(command: str, result: ToolResult) -> CommandRun:
    code = _EXIT.search(result.text)
    output = _OUTPUT.split(result.text, maxsplit=1)
    ended = int(code[1]) if code and not result.is_error else None
    return CommandRun(command, ended, output[1] if len(output) > 1 else "")


def _edits(call: ToolCall) -> dict[str, str | None]:
    if call.name == WRITE:
        return {str(call.arguments.get("path", "")): str(call.arguments.get("content", ""))}
    return dict.fromkeys(_DELETED.findall(str(call.arguments.get("patch", ""))))
