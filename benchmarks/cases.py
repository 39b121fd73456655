"""The scripted answers of each benchmark case, one per request."""

import json
from collections.abc import Sequence

from llm_server import Answer, call, finish, raw_call, say

ROWS = 200
FILES = {"notes.txt": "count = 0\n" + "".join(f"row {n} of the notes\n" for n in range(ROWS))}
"""The files of the workspace at the start of every run."""


STEPS = ("a read", "a command", "an edit")


def turns(count: int) -> list[Answer]:
    """The `STEPS` in turn, all different, then the end of the task."""
    return [_turn(number) for number in range(count)] + [[finish()]]


def long_text(size: int, pieces: int) -> list[Answer]:
    return [[say(*[_line(size // pieces)] * pieces), finish()]]


def long_arguments(size: int, pieces: int) -> list[Answer]:
    """One call that writes a file of `size` characters."""
    # a newline takes two characters in JSON, so the file is a little smaller than the request
    content = _line(size // pieces - 1) * pieces
    body = json.dumps({"path": "long.txt", "content": content})
    cut = range(0, len(body), size // pieces)
    return [
        [raw_call("write_to_file", *(body[at : at + size // pieces] for at in cut))],
        [finish()],
    ]


def _turn(number: int) -> Answer:
    nth = number // len(STEPS)
    match number % len(STEPS):
        case 0:
            step = call("read_file", path="notes.txt", offset=nth + 1, limit=40)
        case 1:
            step = call("execute_command", command=f"echo {nth} >> log.txt; wc -l log.txt")
        case _:
            step = call(
                "edit",
                file_path="notes.txt",
                old_string=f"count = {nth}\n",
                new_string=f"count = {nth + 1}\n",
            )
    return [say(f"This is step {number} of the work."), step]


def _line(size: int) -> str:
    return ("so many words " * (size // 14 + 1))[: size - 1] + "\n"


CASES: dict[str, Sequence[Answer]] = {
    "start": [[finish()]],
    "3-turns": turns(3),
    "30-turns": turns(30),
    "200-turns": turns(199),
    "one-list": [[call("list_files", path=".", recursive=True)], [finish()]],
    "one-search": [[call("search_files", path=".", regex="no such words")], [finish()]],
    "one-command": [[call("execute_command", command="echo 1 >> log.txt")], [finish()]],
    "one-edit": [[call("write_to_file", path="new.txt", content="new\n")], [finish()]],
    "long-text": long_text(2_000_000, 20_000),
    "long-arguments": long_arguments(1_000_000, 10_000),
    "short-text": long_text(2_000, 20),
    "short-arguments": long_arguments(1_000, 10),
}
