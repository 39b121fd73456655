"""What the model is shown. Every request of a task begins with the same bytes, so that a local
server reads them once; what differs stands at the end.

Nothing here looks like an example or a template: a small model repeats those instead of working.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.guided.choice import LARGE_FILE, EditPlace, identifiers, named_paths
from rookery.guided.code_text import mentions, section_text, sections
from rookery.guided.record import CommandRun, Record

SYSTEM = "You work on a small software project. Be exact and brief. Keep what need not change."
ROOM = 7_000
"""Characters of files in a prompt: about 2,000 tokens, a minute on a slow machine."""
MOST_LISTED = 60
OUTPUT_SHOWN = 700
FOUND_SHOWN = 1_200
WRITTEN_SHOWN = 1_500

_LANGUAGES = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript"}


def briefing(record: Record, files: Mapping[str, str]) -> str:
    """The project as far as it matters, the failing output, and the task."""
    shown = _shown_files(record, files)
    others = [path for path in record.paths if path not in shown][:MOST_LISTED]
    parts = [f"{path}\n{fenced(path, text)}" for path, text in shown.items()]
    if others:
        parts.append("Other files: " + " ".join(others))
    if record.found:
        parts.append(f"Found in the project:\n{record.found[:FOUND_SHOWN].strip()}")
    parts += [_shown_run(run) for run in record.runs if run.code is not None]
    if record.earlier:
        parts.append(f"Said before:\n{record.earlier}")
    return "\n\n".join([*parts, f"Task: {record.task}"])


def _shown_run(run: CommandRun) -> str:
    return f"$ {run.command}\n{run.output[-OUTPUT_SHOWN:].strip()}"


def _shown_files(record: Record, files: Mapping[str, str]) -> dict[str, str]:
    """The files that fit: those the task names first, large ones in parts."""
    named = named_paths(record.task, files)
    order = [*named, *(path for path in files if path not in named)]
    room = ROOM
    chosen: dict[str, str] = {}
    for path in order:
        text = files[path]
        if len(text) > LARGE_FILE:
            text = _parts(text, record.task, max(room - 200, 400))
        if len(text) <= room:
            chosen[path] = text
            room -= len(text)
    return {path: chosen[path] for path in files if path in chosen}


def _parts(text: str, task: str, most: int) -> str:
    """The sections that the task is about, and the first lines of the others."""
    wanted = identifiers(task)
    parts = sections(text)
    bodies = {part: section_text(text, part) for part in parts}
    best = sorted(parts, key=lambda part: -mentions(bodies[part], wanted))
    whole = set()
    room = most - sum(len(part.heading) + 1 for part in parts)
    for part in best:
        if mentions(bodies[part], wanted) and len(bodies[part]) <= room:
            whole.add(part)
            room -= len(bodies[part])
    text = "".join(bodies[part] if part in whole else f"{part.heading}\n" for part in parts)
    return text[:most]


def fenced(path: str, text: str) -> str:
    return f"{fence(path)}\n{text.rstrip()}\n{fence('')}"


def fence(path: str) -> str:
    return "```" + _LANGUAGES.get(PurePosixPath(path).suffix, "")


def plan_turns(brief: str, error: str) -> list[Turn]:
    asked = "What is the cause or the wish, what exactly must change, and where?"
    return [_user(f"{brief}{_failed(error)}\n\n{asked}")]


def plan_schema(where: Sequence[EditPlace]) -> dict[str, Any]:
    names = list(dict.fromkeys(place.name for place in where))
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["cause", "change", "where"],
        "properties": {
            "cause": {"type": "string", "maxLength": 240},
            "change": {"type": "string", "maxLength": 320},
            "where": {
                "type": "array",
                "minItems": 1,
                "maxItems": min(3, len(names)),
                "items": {"enum": names},
            },
        },
    }


def write_turns(
    brief: str,
    place: EditPlace,
    files: Mapping[str, str],
    written: Mapping[str, str | None],
    plan: str,
    error: str,
) -> list[Turn]:
    """Ask for one file or section; the answer is to continue behind an opened fence. `written`
    are the files that this attempt has already changed."""
    old = files.get(place.path)
    if place.section and old is not None:
        now = fenced(place.path, section_text(old, place.section))
        asked = f"This part of {place.path} is now:\n{now}\n\nWrite this part anew, whole."
    elif place.at_the_end:
        asked = f"Write only the code that is added at the end of {place.path}."
    elif old is None:
        asked = f"Write the new file {place.path}."
    else:
        asked = f"Write {place.path} anew, whole, with the change made."
    planned = f"\n\nPlan: {plan}" if plan else ""
    for path, text in written.items():
        if text is not None and len(text) <= WRITTEN_SHOWN:
            planned += f"\n\nNew {path}:\n{fenced(path, text)}"
    return [
        _user(f"{brief}{planned}{_failed(error)}\n\n{asked}"),
        Turn("assistant", (Text(text=f"{place.path}\n{fence(place.path)}\n"),)),
    ]


def command_turns(brief: str) -> list[Turn]:
    asked = "Write one short shell command that finds this out."
    return [_user(f"{brief}\n\n{asked}"), Turn("assistant", (Text(text="```sh\n"),))]


def answer_turns(brief: str) -> list[Turn]:
    return [_user(f"{brief}\n\nAnswer in few words.")]


def _failed(error: str) -> str:
    return f"\n\nAn earlier try failed: {error}" if error else ""


def _user(text: str) -> Turn:
    return Turn("user", (Text(text=text),))
