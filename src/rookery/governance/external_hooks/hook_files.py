"""Hooks with their source, the files they come from, and the transcript that hooks can read.

The hooks of all files apply together; an invalid file does not affect the others.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.blocks import Block, Text, Thinking, ToolCall
from rookery.core.commands import repeated_field
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    Ending,
    Event,
    Fact,
    TaskOpened,
    ToolFinished,
    UserSpoke,
)
from rookery.core.limits import MIB
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.settings import Settings
from rookery.governance.external_hooks.hook_config import HookCommand, HookProblem, read_hooks
from rookery.platform.disk import Unreadable, small_file
from rookery.platform.user_folders import Places

TRANSCRIPT = "transcript.jsonl"


class TranscriptFile:
    """A transcript in the format of Claude Code. `folder` is the task's private folder."""

    def __init__(self, folder: Path, task_id: str, cwd: str) -> None:
        self._path = folder / TRANSCRIPT
        self._task_id = task_id
        self._cwd = cwd
        self._written = 0

    def update(self, events: Sequence[Event]) -> str:
        """Append the new events. Returns the path, or an empty string if writing failed, so that
        no hook reads a partial transcript."""
        new = events[self._written :]
        text = "".join(f"{line}\n" for line in transcript_lines(new, self._task_id, self._cwd))
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_APPEND if self._written else os.O_TRUNC
        try:
            with open(os.open(self._path, flags, 0o600), "wb") as file:
                file.write(text.encode("ascii"))
        except OSError:
            self._written = 0
            return ""
        self._written = len(events)
        return str(self._path)


def transcript_lines(events: Iterable[Event], session_id: str, cwd: str) -> Iterator[str]:
    for event in events:
        message = _message(event.fact)
        if message is None:
            continue
        at = datetime.fromtimestamp(event.ts / 1000, UTC)
        line = {
            "type": message["role"],
            "uuid": f"{session_id}-{event.seq}",
            "sessionId": session_id,
            "cwd": cwd,
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "message": message,
        }
        yield json.dumps(line, ensure_ascii=True, default=str)


def _message(fact: Fact) -> dict[str, Any] | None:
    match fact:
        case TaskOpened(text=text) | UserSpoke(text=text):
            return {"role": "user", "content": text}
        case Answered(by="user", text=text) if text:
            return {"role": "user", "content": text}
        case AssistantSpoke(blocks=blocks):
            content = [shown for block in blocks if (shown := _block(block))]
            return {"role": "assistant", "content": content} if content else None
        case ToolFinished(call_id=call_id, text=text, ending=ending):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            return {"role": "user", "content": [{**result, "is_error": ending is not Ending.DONE}]}
        case _:
            return None


def _block(block: Block) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(text=text):
            return {"type": "thinking", "thinking": text}
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": dict(arguments)}
        case _:
            return None


HOOK_FILE = "hooks.json"
MANAGED_FILE = Path("/etc") / NAME / HOOK_FILE
IMPORTED_FILES = (".claude/settings.json", ".claude/settings.local.json")
LARGEST = 1 * MIB


class HookSource(StrEnum):
    MANAGED = "managed"
    """Set up by the administrator."""
    USER = "user"
    PROJECT = "project"
    IMPORTED = "claude"
    """Also part of the project, but written for Claude Code."""
    USER_IMPORTED = "user-claude"
    """The user's own, written for Claude Code."""

    @property
    def is_of_project(self) -> bool:
        return self in (HookSource.PROJECT, HookSource.IMPORTED)


class TrustStatus(StrEnum):
    MANAGED = "managed"
    UNTRUSTED = "untrusted"
    TRUSTED = "trusted"
    MODIFIED = "modified"

    @property
    def may_run(self) -> bool:
        return self in (TrustStatus.MANAGED, TrustStatus.TRUSTED)


_IMPORTED = (HookSource.IMPORTED, HookSource.USER_IMPORTED)


class KnownHook(Struct, frozen=True):
    """`file` is the path for display."""

    source: HookSource
    file: str
    hook: HookCommand


class HookPlaces(Struct, frozen=True, kw_only=True):
    """`managed` is the administrator's file and `user` the user's own; None if there is none."""

    workspace: Path
    managed: Path | None = None
    user: Path | None = None
    import_claude: bool = False
    claude_user: Path | None = None
    """The user's own settings of Claude Code, read with `import_claude`."""
    managed_only: bool = False


class FoundHooks(Struct, frozen=True):
    """Hooks in the order they run."""

    hooks: tuple[KnownHook, ...] = ()
    problems: tuple[HookProblem, ...] = ()


class _Source(Struct, frozen=True):
    kind: HookSource
    path: Path
    shown: str


def hook_places(workspace: Path, places: Places, settings: Settings) -> HookPlaces:
    """The hook files that apply in a workspace."""
    return HookPlaces(
        workspace=workspace,
        managed=MANAGED_FILE,
        user=places.config / HOOK_FILE,
        import_claude=settings.imports_hooks,
        claude_user=users_claude_file(workspace),
        managed_only=settings.hooks.managed_only,
    )


def users_claude_file(workspace: Path) -> Path | None:
    """The user's own settings of Claude Code; None if the file belongs to the workspace."""
    file = Path.home() / IMPORTED_FILES[0]
    return None if file.resolve().is_relative_to(workspace.resolve()) else file


def find_hooks(places: HookPlaces) -> FoundHooks:
    read = [_read(source, places.workspace) for source in _sources(places)]
    return FoundHooks(
        tuple(hook for each in read for hook in each.hooks),
        tuple(problem for each in read for problem in each.problems),
    )


def _sources(places: HookPlaces) -> list[_Source]:
    found: list[_Source] = []
    if places.managed:
        found.append(_Source(HookSource.MANAGED, places.managed, str(places.managed)))
    if places.managed_only:
        return found
    if places.user:
        found.append(_Source(HookSource.USER, places.user, str(places.user)))
    own = f"{GOVERNANCE_FOLDER}/{HOOK_FILE}"
    found.append(_Source(HookSource.PROJECT, places.workspace / own, own))
    if places.import_claude:
        if places.claude_user:
            shown = str(places.claude_user)
            found.append(_Source(HookSource.USER_IMPORTED, places.claude_user, shown))
        found += [
            _Source(HookSource.IMPORTED, places.workspace / name, name) for name in IMPORTED_FILES
        ]
    return found


def _read(source: _Source, workspace: Path) -> FoundHooks:
    # links of the project stay inside it; the user's may lead anywhere
    top = workspace if source.kind.is_of_project else Path("/")
    if not os.path.isdir(source.path.parent):
        return FoundHooks()
    try:
        text = small_file(source.path, top, largest=LARGEST).decode("utf-8-sig")
        document = json.loads(text)
    except FileNotFoundError:
        return FoundHooks()
    except Unreadable as error:
        return _unusable(source, str(error))
    except (UnicodeDecodeError, RecursionError):
        return _unusable(source, "it is not JSON text; none of its hooks runs")
    except json.JSONDecodeError as error:
        why = f"it is not JSON (line {error.lineno}: {error.msg}); none of its hooks runs"
        return _unusable(source, why)
    if repeated := repeated_field(text):  # one of the two would be dropped
        return _unusable(source, f"it {repeated.rstrip('.')}; none of its hooks runs")
    file = read_hooks(document, imported=source.kind in _IMPORTED)
    return FoundHooks(
        tuple(KnownHook(source.kind, source.shown, hook) for hook in file.hooks),
        tuple(replace(each, file=source.shown) for each in file.problems),
    )


def _unusable(source: _Source, why: str) -> FoundHooks:
    return FoundHooks(problems=(HookProblem("", why, source.shown),))
