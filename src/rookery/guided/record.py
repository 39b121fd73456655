"""The steps since the user's last message, read from the conversation."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.core.replies import NEVER_RUN

LIST, READ, SEARCH, RUN = "list_files", "read_file", "search_files", "execute_command"
WRITE, PATCH = "write_to_file", "apply_patch"

ATTEMPT = re.compile(r"^Attempt (\d{1,3})\b", re.MULTILINE)
"""The words with which an attempt begins; the number tells which approach was used."""
RESTORING = "Restoring the files."
"""The words with which the files of all attempts are restored."""
LONGEST_TASK = 4_000
MARK, RETURNS, OPEN_END = "byte-order mark", "CRLF line ends", "no newline at the end"
FORMS = [
    ", ".join(filter(None, facts)) for facts in product(("", MARK), ("", RETURNS), ("", OPEN_END))
]
"""What the lines of a file do not show about its bytes."""

_INTERRUPTED = "The task was interrupted"
"""How the engine reports a call that a killed process had begun."""
_MESSAGE = re.compile(r"<user_message>\n(.*?)\n</user_message>", re.DOTALL)
_LINE = re.compile(r" *\d+ \| ?(.*)")
_EXIT = re.compile(r"^Exit code: (-?\d+)", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:\n", re.MULTILINE)
_FORM = re.compile(rf"^(.+): ({'|'.join(FORMS[1:])})$", re.MULTILINE)
_DELETED = re.compile(r"^\*\*\* Delete File: (.+)$", re.MULTILINE)


class CommandRun(Struct, frozen=True):
    """A command that ran; `code` is None if it did not end by itself or was not run."""

    command: str
    code: int | None
    output: str
    lost: bool = False
    """Whether its end is not known because the process was killed."""


class Attempt(Struct, frozen=True):
    """One set of edits and the checks that followed. The text of a deleted file is None."""

    number: int
    """Of the approach; 0 for a rename without the model."""
    edits: Mapping[str, str | None]
    """Those that were made."""
    checks: Sequence[CommandRun]
    lost: Mapping[str, str | None] = {}
    """Edits that were not made because the process was killed."""
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
    """Lines of the files that were read whole, as they were before the first attempt."""
    forms: Mapping[str, str] = {}
    """The form of files that have another one than the first."""
    fixed: Collection[str] = ()
    """Files that are not changed, because their bytes could not be restored."""
    runs: Sequence[CommandRun] = ()
    """Commands before the first attempt."""
    attempts: Sequence[Attempt] = ()

    def original(self, path: str) -> str | None:
        """The text of a file before the first attempt; None if it was not there."""
        text = self.files.get(path)
        return text if text is None else in_form(text, self.forms.get(path, ""))

    def changeable(self) -> dict[str, str]:
        return {path: text for path, text in self.files.items() if path not in self.fixed}


def in_form(text: str, form: str) -> str:
    text = text.removesuffix("\n") if OPEN_END in form else text
    text = text.replace("\n", "\r\n") if RETURNS in form else text
    return f"\ufeff{text}" if MARK in form else text


def form_of(text: str, shown: str) -> str | None:
    """The form in which the shown lines are this text; None if there is none."""
    return next((form for form in FORMS if in_form(shown, form) == text), None)


def read_record(turns: Sequence[Turn]) -> Record:
    start, task = _last_message(turns)
    listed = read = searched = False
    paths: dict[str, None] = {}
    hits: dict[str, int] = {}
    found = ""
    files: dict[str, str] = {}
    runs: list[CommandRun] = []
    attempts: list[Attempt] = []
    forms: dict[str, str] = {}
    for words, calls in _answers(turns[start:]):
        for call, result in calls:
            match call.name:
                case "list_files":
                    listed = True
                    folder = str(call.arguments.get("path", "."))
                    paths |= dict.fromkeys([] if result.is_error else _paths(result.text, folder))
                case "search_files":
                    searched = True
                    hits = {**hits, **_hits(result.text)}
                    found += result.text if hits else ""
                case "read_file":
                    read = True
                    files |= _whole_files(result.text)
        checks = [_run(call, result) for call, result in calls if call.name == RUN]
        if any(call.name in (WRITE, PATCH) for call, _ in calls):
            attempts.append(_attempt(words, calls, checks))
            # the model's plan, which may hold anything, is the next paragraph
            forms |= dict(_FORM.findall(words.partition("\n\n")[0]))
        elif not attempts:
            runs += checks
        elif checks:  # those of the last attempt were interrupted
            attempts[-1] = replace(attempts[-1], checks=checks)
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
        forms=forms,
        runs=runs,
        attempts=attempts,
    )


def _attempt(
    words: str, calls: Sequence[tuple[ToolCall, ToolResult]], checks: Sequence[CommandRun]
) -> Attempt:
    number = ATTEMPT.search(words)
    made: dict[str, str | None] = {}
    lost: dict[str, str | None] = {}
    refusal = ""
    for call, result in calls:
        edits = _edits(call)
        if result.text.startswith((NEVER_RUN, _INTERRUPTED)):
            done = {path for path in edits if f"{path}: the change was done." in result.text}
            undone = {path for path in edits if f"{path}: the change was not done." in result.text}
            undone = set(edits) if result.text.startswith(NEVER_RUN) else undone
            made |= {path: edits[path] for path in done}
            lost |= {path: edits[path] for path in undone}
            refusal = refusal or (result.text if edits.keys() - done - undone else "")
        elif edits:
            made |= {} if result.is_error else edits
            refusal = refusal or (result.text if result.is_error else "")
    return Attempt(
        number=int(number[1]) if number else 0,
        edits=made,
        lost=lost,
        checks=checks,
        refusal=refusal,
        restores=number is None and RESTORING in words,  # a plan may hold these words too
    )


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


def _run(call: ToolCall, result: ToolResult) -> CommandRun:
    code = _EXIT.search(result.text)
    output = _OUTPUT.split(result.text, maxsplit=1)
    return CommandRun(
        command=str(call.arguments.get("command", "")),
        code=int(code[1]) if code and not result.is_error else None,
        output=output[1] if len(output) > 1 else "",
        lost=result.text.startswith((NEVER_RUN, _INTERRUPTED)),
    )


def _edits(call: ToolCall) -> dict[str, str | None]:
    if call.name == WRITE:
        return {str(call.arguments.get("path", "")): str(call.arguments.get("content", ""))}
    if call.name != PATCH:
        return {}
    return dict.fromkeys(_DELETED.findall(str(call.arguments.get("patch", ""))))
