"""The commands of `rookery sessions` that send one request and print its answer.

Their help is the docstring of the request.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from rookery import NAME
from rookery.cli.reports import Exit
from rookery.core.queries import BlamedLine, IntentRow, TraceRow
from rookery.core.text.terminal_text import harmless, harmless_line, plainly_visible, visible_line
from rookery.errors import SettingsError
from rookery.governance.cli.intents_common import aligned
from rookery.manager import requests as asked
from rookery.manager import worktree_requests as trees
from rookery.manager.cli.sessions_common import ManagerClient, short, some, with_manager, words_of
from rookery.manager.cli.sessions_list import inbox_lines
from rookery.manager.cli.sessions_review import SHORTEST_DIGEST, stats_of
from rookery.manager.shown_rows import (
    CheckpointRow,
    Device,
    Done,
    Exported,
    Importables,
    KeptWork,
    ScriptRow,
    WorktreeRow,
)

Lines = Callable[[Any, ManagerClient], Iterable[str]]
_NAMES = {"session_id": "session", "worktree_id": "which", "id": "device"}
"""Parameters that are called otherwise than their field."""
_METAVARS = {"session_id": "ID", "worktree_id": "ID|BRANCH", "id": "DEVICE"}


class CommandSpec(Struct, frozen=True):
    name: str
    """After `rookery sessions`; two words for a command of a group."""
    request: type[Any]
    """Its docstring is the help."""
    arguments: tuple[str, ...] = ()
    """Fields with a default that are arguments all the same."""
    options: Mapping[str, str | click.Option] = {}
    """By field: the help, or the whole option."""
    done: str | Callable[[Any], str] = ""
    """What to say of a request that is answered with `Done`; takes the fields, `{id}`, `{branch}`
    and `{path}`."""
    notes_instead: bool = False
    """The notes of the answer replace that sentence."""
    lines: Lines | None = None
    """What to print of any other answer."""
    refuse: Callable[[Any], str] | None = None
    """Why a request makes no sense, or nothing."""


def request_command(spec: CommandSpec) -> click.Command:
    known = fields(spec.request)

    async def run(client: ManagerClient, **given: Any) -> int:
        values = {field.name: given[name] for field in known if (name := _param(field)) in given}
        names = await _resolve(client, values, known)
        request = spec.request(**values)
        if spec.refuse and (problem := spec.refuse(request)):
            raise SettingsError(problem)
        return _print(client, spec, request, await client.do(request), names)

    name, params = spec.name.split()[-1], list(_params(spec, known))
    return click.command(name, help=spec.request.__doc__, params=params)(with_manager(run))


def _params(spec: CommandSpec, known: Iterable[FieldInfo]) -> Iterator[click.Parameter]:
    hints = get_type_hints(spec.request)
    for field in known:
        if field.required or field.name in spec.arguments:
            yield _argument(field, hints[field.name])
    for name, said in spec.options.items():
        (field,) = (each for each in known if each.name == name)
        yield said if isinstance(said, click.Option) else _option(field, hints[name], said)


def _argument(field: FieldInfo, hint: Any) -> click.Argument:
    default = {} if field.default is NODEFAULT else {"default": field.default, "required": False}
    metavar = _METAVARS.get(field.name)
    return click.Argument([_param(field)], type=_type(hint), metavar=metavar, **default)


def _option(field: FieldInfo, hint: Any, help: str) -> click.Option:
    name = _param(field)
    flag = f"--{name.replace('_', '-')}"
    if hint is bool:
        return click.Option([flag, name], is_flag=True, help=help)
    metavar = _METAVARS.get(field.name)
    return click.Option(
        [flag, name], type=_type(hint), default=field.default, metavar=metavar, help=help
    )


def _type(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    return int if int in (hint, *get_args(hint)) else str


def _param(field: FieldInfo) -> str:
    return _NAMES.get(field.name, field.name)


async def _resolve(
    client: ManagerClient, values: dict[str, Any], known: Iterable[FieldInfo]
) -> dict[str, str]:
    """Replaces what the user typed by what the request needs; gives the names to speak of it."""
    names: dict[str, str] = {}
    if given := values.get("session_id"):
        values["session_id"] = (await client.session(given)).session_id
        names["id"] = short(values["session_id"])
    if given := values.get("worktree_id"):
        row = await client.worktree(given)
        values["worktree_id"] = row.id
        names |= {"branch": harmless_line(row.branch), "path": harmless_line(row.path)}
    for field in known:
        if field.name == "text" and values["text"] != field.default:
            values["text"] = words_of(values["text"])
    return names


def _print(
    client: ManagerClient, spec: CommandSpec, request: Any, answer: Any, names: Mapping[str, str]
) -> int:
    if not isinstance(answer, Done):
        assert spec.lines, spec.name
        client.tell(answer, spec.lines(answer, client))
        return Exit.DONE
    said = spec.done if isinstance(spec.done, str) else spec.done(request)
    told = {name: harmless_line(str(value)) for name, value in _fields_of(request)}
    return client.tell_done(answer, said.format(**{**told, **names}), instead=spec.notes_instead)


def _fields_of(request: Any) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(request, name)) for name in request.__struct_fields__)


_WORKTREE_HEAD = ["ID", "BRANCH", "STATE", "FROM", "SESSIONS", "FOLDER"]
_IN_SESSION = "In the workspace of this session."


def table(row: Callable[[Any], list[str]], nothing: str, head: list[str] | None = None) -> Lines:
    """Prints each item of an answer as a row of cells."""

    def lines(found: Iterable[Any], client: ManagerClient) -> list[str]:
        rows = list(map(row, found))
        return aligned([head, *rows] if head else rows) if rows else [nothing]

    return lines


def _most(limit: int, usual: int) -> click.Option:
    kind = click.IntRange(1, limit)
    return click.Option(["--most"], type=kind, default=usual, help="Maximum number.")


def _exported(answer: Exported, client: ManagerClient) -> list[str]:
    text = harmless(answer.text) if sys.stdout.isatty() else answer.text
    return [text.rstrip("\n")]


def _checkpoint(row: CheckpointRow) -> str:
    when = datetime.fromtimestamp(row.ts / 1000).strftime("%H:%M:%S")
    paths = f"  ({harmless_line(some(row.paths))})" if row.paths else ""
    return f"{row.seq:>6}  {when}  {harmless_line(row.title)}{paths}"


def _checkpoints(found: Iterable[CheckpointRow], client: ManagerClient) -> list[str]:
    return list(map(_checkpoint, found)) or ["No checkpoints yet."]


def _importable(found: Importables, client: ManagerClient) -> list[str]:
    branches = [f"branch  {harmless_line(each)}" for each in found.branches]
    folders = [f"folder  {harmless_line(each)}" for each in found.worktrees]
    return [*branches, *folders] or ["Nothing to import."]


def _kept(found: Iterable[KeptWork], client: ManagerClient) -> list[str]:
    lines = [f"{harmless_line(each.ref)}  {harmless_line(each.about)}" for each in found]
    return lines or ["No saved work."]


def _scripts(found: Iterable[ScriptRow], client: ManagerClient) -> list[str]:
    return [line for row in found for line in _script(row)] or ["The project has no scripts."]


def _script(row: ScriptRow) -> Iterator[str]:
    """All of its text, with nothing in it that one would not see."""
    digest = harmless_line(row.digest[:SHORTEST_DIGEST])
    until = f"runs only after: {NAME} sessions worktrees agree {digest}"
    yield f"{visible_line(row.path)} {'is allowed to run.' if row.agreed else until}"
    yield from (f"  {line}" for line in plainly_visible(row.text).split("\n"))


def _one_worktree(row: WorktreeRow, client: ManagerClient) -> list[str]:
    return aligned([_WORKTREE_HEAD, _worktree(row)])


def _worktree(row: WorktreeRow) -> list[str]:
    state = f"{row.state}, running" if row.running else str(row.state)
    sessions = ", ".join(map(short, row.sessions)) or "-"
    return [row.id, row.branch, state, row.parent_branch or "-", sessions, row.path]


def _intent(row: IntentRow) -> list[str]:
    return [row.id, row.status, str(row.writes), row.name or row.problem]


def _record(row: TraceRow) -> list[str]:
    about = row.summary or ", ".join(row.paths)
    return [_when(row.ts), row.kind, row.intent or "-", row.tool or "-", about]


def _blamed(line: BlamedLine) -> list[str]:
    return [line.intent or "-", line.tool or "-", str(line.line), line.text]


def _device(row: Device) -> list[str]:
    return [row.id, row.name, _when(row.paired), _when(row.seen)]


def _when(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def _no_switch(request: asked.SwitchSession) -> str:
    wanted = (request.mode, request.model, request.intent, request.auto_approve)
    if any(each is not None for each in wanted):
        return ""
    return "Choose what to change: --mode, --model, --intent, --auto or --ask."


def _not_one(request: trees.ImportWork) -> str:
    one = bool(request.branch) != bool(request.folder)
    return "" if one else "Give either --branch or --folder."


SPECS = (
    CommandSpec(
        "inbox",
        asked.ListQuestions,
        lines=lambda rows, client: inbox_lines(rows, client.paint),
    ),
    CommandSpec("send", asked.SendWords, done="Sent to {id}."),
    CommandSpec("cancel", asked.CancelSession, done="Stopped {id}."),
    CommandSpec("resume", asked.ResumeSession, arguments=("text",), done="Resumed {id}."),
    CommandSpec("retry", asked.RetrySession, done="Retried {id}."),
    CommandSpec(
        "remove",
        asked.RemoveSession,
        done=f"{{id}} is no longer listed. To read it: {NAME} show {{id}}. "
        f"To delete it: {NAME} delete {{id}}",
    ),
    CommandSpec("stop-all", asked.StopAll, done="Stopped all sessions."),
    CommandSpec("rename", asked.RenameSession, arguments=("label",), done="Renamed {id}."),
    CommandSpec(
        "archive",
        asked.ArchiveSession,
        options={
            "archived": click.Option(
                ["--undo", "archived"], flag_value=False, default=True, help="Unarchive it."
            )
        },
        done=lambda request: f"{{id}} is {'archived' if request.archived else 'unarchived'}.",
    ),
    CommandSpec("mark-read", asked.MarkRead, done="Marked {id} as read."),
    CommandSpec(
        "switch",
        asked.SwitchSession,
        options={
            "mode": click.Option(["-M", "--mode"], help="Continue in this mode."),
            "model": click.Option(
                ["-m", "--model"], help="Continue with this model, as provider/model or plain."
            ),
            "intent": "Continue for this intent.",
            "auto_approve": click.Option(
                ["--auto/--ask", "auto_approve"],
                default=None,
                help="Approve actions automatically, or ask first.",
            ),
        },
        refuse=_no_switch,
        done="Changed {id}.",
    ),
    CommandSpec("mail retry", asked.RetryMail, done="Sent again."),
    CommandSpec("mail discard", asked.DiscardMail, done="Discarded."),
    CommandSpec(
        "mail edit",
        asked.EditQueued,
        arguments=("text",),
        done=lambda request: "Changed." if request.text else "Discarded.",
    ),
    CommandSpec(
        "export",
        asked.ExportSession,
        options={"format": ""},
        lines=_exported,
    ),
    CommandSpec("checkpoints", asked.ListCheckpoints, lines=_checkpoints),
    CommandSpec(
        "models",
        asked.ListModels,
        lines=table(lambda each: [each.provider, each.model], "None."),
    ),
    CommandSpec(
        "modes",
        asked.ListModes,
        lines=table(lambda each: [each.slug, each.name], "None."),
    ),
    CommandSpec("branches", asked.ListBranches, lines=table(lambda each: [each], "None.")),
    CommandSpec(
        "paths",
        asked.FindPaths,
        arguments=("letters",),
        options={"most": _most(1000, 20), "session_id": _IN_SESSION},
        lines=table(lambda each: [each.path + "/" * each.folder], "No files match."),
    ),
    CommandSpec("intents", asked.ListIntents, lines=table(_intent, "This project has no intents.")),
    CommandSpec(
        "trace",
        asked.ReadTrace,
        options={
            "intent": "Only records of this intent.",
            "path": "Only records of this file.",
            "most": _most(10_000, 100),
            "session_id": _IN_SESSION,
        },
        lines=table(_record, "Nothing recorded yet."),
    ),
    CommandSpec(
        "blame",
        asked.BlameFile,
        options={"session_id": _IN_SESSION},
        lines=table(_blamed, "This file is empty."),
    ),
    CommandSpec("devices list", asked.ListDevices, lines=table(_device, "No paired devices.")),
    CommandSpec("devices revoke", asked.RevokeDevice, done="Revoked {id}."),
    CommandSpec("merge", trees.MergeWorktree, done="Merged {branch}.", notes_instead=True),
    CommandSpec(
        "finish",
        trees.FinishWorktree,
        options={
            "message": click.Option(
                ["-m", "--message"],
                default="",
                help="The commit message; without it the agent writes one.",
            )
        },
        done="Committed to {branch}.",
        notes_instead=True,
    ),
    CommandSpec(
        "worktrees list",
        trees.ListWorktrees,
        lines=table(_worktree, "No worktrees.", _WORKTREE_HEAD),
    ),
    CommandSpec("worktrees stats", trees.ReadStats, lines=lambda stats, client: [stats_of(stats)]),
    CommandSpec("worktrees importable", trees.ListImportable, lines=_importable),
    CommandSpec(
        "worktrees import",
        trees.ImportWork,
        options={
            "branch": "A branch to work on in a new worktree.",
            "folder": "The folder of an existing worktree.",
        },
        refuse=_not_one,
        lines=_one_worktree,
    ),
    CommandSpec("worktrees recreate", trees.RecreateWorktree, done="Recreated {branch}."),
    CommandSpec("worktrees kept", trees.ListKept, lines=_kept),
    CommandSpec("worktrees bring-back", trees.BringBack, lines=_one_worktree),
    CommandSpec("worktrees run", trees.RunScript, done="Run script started in {path}."),
    CommandSpec("worktrees stop", trees.StopScript, done="Run script stopped."),
    CommandSpec("worktrees scripts", trees.ListScripts, lines=_scripts),
)
