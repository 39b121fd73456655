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
from rookery.core.text.terminal_text import (
    aligned,
    harmless,
    harmless_line,
    plainly_visible,
    visible_line,
)
from rookery.errors import SettingsError
from rookery.manager import requests
from rookery.manager.cli.sessions_common import ManagerClient, few, short, text_of, with_manager
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
_NAMES = {"session_id": "session", "worktree_id": "which"}
"""Fields whose parameter has another name."""
_METAVARS = {"session_id": "ID", "session_ids": "ID...", "worktree_id": "ID|BRANCH", "id": "ID"}


class CommandSpec(Struct, frozen=True):
    name: str
    """Name after `rookery sessions`; two words for a command in a group."""
    request: type[Any]
    """The request type; its docstring is the help."""
    arguments: tuple[str, ...] = ()
    """Fields that are arguments although they have a default."""
    options: Mapping[str, str | click.Option] = {}
    """For each field, the help of its option or the whole option."""
    done: str | Callable[[Any], str] = ""
    """Message for the answer `Done`; a template with the request's fields, `{id}`, `{branch}`
    and `{path}`."""
    notes_instead: bool = False
    """Whether notes of the answer replace that message."""
    lines: Lines | None = None
    """Formats any other answer."""
    refuse: Callable[[Any], str] | None = None
    """Return why the request is invalid; empty if it is valid."""


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
    for name, option in spec.options.items():
        (field,) = (each for each in known if each.name == name)
        yield option if isinstance(option, click.Option) else _option(field, hints[name], option)


def _argument(field: FieldInfo, hint: Any) -> click.Argument:
    default = {} if field.default is NODEFAULT else {"default": field.default, "required": False}
    metavar = _METAVARS.get(field.name)
    if get_origin(hint) is tuple:
        default |= {"nargs": -1, "required": field.required}
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
    """Replace ids typed by the user with full ones. Return names for use in messages."""
    names: dict[str, str] = {}
    if given := values.get("session_id"):
        values["session_id"] = (await client.session(given)).session_id
        names["id"] = short(values["session_id"])
    if given := values.get("session_ids"):
        values["session_ids"] = tuple([(await client.session(each)).session_id for each in given])
    if given := values.get("worktree_id"):
        row = await client.worktree(given)
        values["worktree_id"] = row.id
        names |= {"branch": harmless_line(row.branch), "path": harmless_line(row.path)}
    for field in known:
        if field.name == "text" and values["text"] != field.default:
            values["text"] = text_of(values["text"])
    return names


def _print(
    client: ManagerClient, spec: CommandSpec, request: Any, answer: Any, names: Mapping[str, str]
) -> int:
    if not isinstance(answer, Done):
        assert spec.lines, spec.name
        client.print(answer, spec.lines(answer, client))
        return Exit.DONE
    message = spec.done if isinstance(spec.done, str) else spec.done(request)
    values = {name: harmless_line(str(value)) for name, value in _fields_of(request)}
    return client.print_done(
        answer, message.format(**{**values, **names}), instead=spec.notes_instead
    )


def _fields_of(request: Any) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(request, name)) for name in request.__struct_fields__)


_WORKTREE_HEAD = ["ID", "BRANCH", "STATE", "FROM", "SESSIONS", "FOLDER"]
_IN_SESSION = "In the workspace of this session."


def table(row: Callable[[Any], list[str]], nothing: str, head: list[str] | None = None) -> Lines:
    """Return a formatter that prints each item of an answer as a table row."""

    def lines(found: Iterable[Any], client: ManagerClient) -> list[str]:
        rows = list(map(row, found))
        return aligned([head, *rows] if head else rows) if rows else [nothing]

    return lines


def _limit_option(limit: int, usual: int) -> click.Option:
    kind = click.IntRange(1, limit)
    return click.Option(["--most"], type=kind, default=usual, help="Maximum number.")


def _exported(answer: Exported, client: ManagerClient) -> list[str]:
    text = harmless(answer.text) if sys.stdout.isatty() else answer.text
    return [text.rstrip("\n")]


def _checkpoint(row: CheckpointRow) -> str:
    when = datetime.fromtimestamp(row.ts / 1000).strftime("%H:%M:%S")
    paths = f"  ({harmless_line(few(row.paths))})" if row.paths else ""
    return f"{row.seq:>6}  {when}  {harmless_line(row.title)}{paths}"


def _checkpoints(found: Iterable[CheckpointRow], client: ManagerClient) -> list[str]:
    return list(map(_checkpoint, found)) or ["No checkpoints yet."]


def _importable(found: Importables, client: ManagerClient) -> list[str]:
    branches = [f"branch  {harmless_line(each)}" for each in found.branches]
    folders = [f"folder  {harmless_line(each)}" for each in found.worktrees]
    return [*branches, *folders] or ["Nothing to import."]


def _saved_work(found: Iterable[KeptWork], client: ManagerClient) -> list[str]:
    lines = [f"{harmless_line(each.ref)}  {harmless_line(each.about)}" for each in found]
    return lines or ["No saved work."]


def _scripts(found: Iterable[ScriptRow], client: ManagerClient) -> list[str]:
    return [line for row in found for line in _script(row)] or ["The project has no scripts."]


def _script(row: ScriptRow) -> Iterator[str]:
    """The whole text of a script, with hidden characters made visible."""
    digest = harmless_line(row.digest[:SHORTEST_DIGEST])
    until = f"runs only after: {NAME} sessions worktrees agree {digest}"
    yield f"{visible_line(row.path)} {'is allowed to run.' if row.agreed else until}"
    yield from (f"  {line}" for line in plainly_visible(row.text).split("\n"))


def one_worktree(row: WorktreeRow, client: ManagerClient) -> list[str]:
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


def _check_switch(request: requests.SwitchSession) -> str:
    wanted = (request.mode, request.model, request.intent, request.auto_approve)
    if any(each is not None for each in wanted):
        return ""
    return "Choose what to change: --mode, --model, --intent, --auto or --ask."


def _check_import(request: requests.ImportWork) -> str:
    one = bool(request.branch) != bool(request.folder)
    return "" if one else "Give either --branch or --folder."


SPECS = (
    CommandSpec(
        "inbox", requests.ListQuestions, lines=lambda rows, client: inbox_lines(rows, client.paint)
    ),
    CommandSpec("send", requests.SendWords, done="Sent to {id}."),
    CommandSpec("cancel", requests.CancelSession, done="Stopped {id}."),
    CommandSpec("resume", requests.ResumeSession, arguments=("text",), done="Resumed {id}."),
    CommandSpec("retry", requests.RetrySession, done="Retried {id}."),
    CommandSpec(
        "remove",
        requests.RemoveSession,
        done=f"{{id}} is no longer listed. To read it: {NAME} show {{id}}. "
        f"To delete it: {NAME} delete {{id}}",
    ),
    CommandSpec("stop-all", requests.StopAll, done="Stopped all sessions."),
    CommandSpec("rename", requests.RenameSession, arguments=("label",), done="Renamed {id}."),
    CommandSpec(
        "archive",
        requests.ArchiveSession,
        options={
            "archived": click.Option(
                ["--undo", "archived"], flag_value=False, default=True, help="Unarchive it."
            )
        },
        done=lambda request: f"{{id}} is {'archived' if request.archived else 'unarchived'}.",
    ),
    CommandSpec("mark-read", requests.MarkRead, done="Marked {id} as read."),
    CommandSpec(
        "switch",
        requests.SwitchSession,
        options={
            "mode": click.Option(["-M", "--mode"], help="Continue in this mode."),
            "model": click.Option(
                ["-m", "--model"], help="Continue with this model, as PROVIDER/MODEL or MODEL."
            ),
            "intent": "Continue for this intent.",
            "auto_approve": click.Option(
                ["--auto/--ask", "auto_approve"],
                default=None,
                help="Approve actions automatically, or ask first.",
            ),
        },
        refuse=_check_switch,
        done="Changed {id}.",
    ),
    CommandSpec("mail retry", requests.RetryMail, done="Sent again."),
    CommandSpec("mail discard", requests.DiscardMail, done="Discarded."),
    CommandSpec(
        "mail edit",
        requests.EditQueued,
        arguments=("text",),
        done=lambda request: "Changed." if request.text else "Discarded.",
    ),
    CommandSpec("export", requests.ExportSession, options={"format": ""}, lines=_exported),
    CommandSpec("checkpoints", requests.ListCheckpoints, lines=_checkpoints),
    CommandSpec(
        "models",
        requests.ListModels,
        lines=table(lambda each: [each.provider, each.model], "None."),
    ),
    CommandSpec(
        "modes", requests.ListModes, lines=table(lambda each: [each.slug, each.name], "None.")
    ),
    CommandSpec("branches", requests.ListBranches, lines=table(lambda each: [each], "None.")),
    CommandSpec(
        "paths",
        requests.FindPaths,
        arguments=("letters",),
        options={"most": _limit_option(1000, 20), "session_id": _IN_SESSION},
        lines=table(lambda each: [each.path + "/" * each.folder], "No files match."),
    ),
    CommandSpec(
        "intents", requests.ListIntents, lines=table(_intent, "This project has no intents.")
    ),
    CommandSpec(
        "trace",
        requests.ReadTrace,
        options={
            "intent": "Only records of this intent.",
            "path": "Only records of this file.",
            "most": _limit_option(10_000, 100),
            "session_id": _IN_SESSION,
        },
        lines=table(_record, "Nothing recorded yet."),
    ),
    CommandSpec(
        "blame",
        requests.BlameFile,
        options={"session_id": _IN_SESSION},
        lines=table(_blamed, "This file is empty."),
    ),
    CommandSpec("devices list", requests.ListDevices, lines=table(_device, "No paired devices.")),
    CommandSpec("devices revoke", requests.RevokeDevice, done="Revoked {id}."),
    CommandSpec("merge", requests.MergeWorktree, done="Merged {branch}.", notes_instead=True),
    CommandSpec(
        "finish",
        requests.FinishWorktree,
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
        requests.ListWorktrees,
        lines=table(_worktree, "No worktrees.", _WORKTREE_HEAD),
    ),
    CommandSpec(
        "worktrees stats", requests.ReadStats, lines=lambda stats, client: [stats_of(stats)]
    ),
    CommandSpec("worktrees importable", requests.ListImportable, lines=_importable),
    CommandSpec(
        "worktrees import",
        requests.ImportWork,
        options={
            "branch": "A branch to work on in a new worktree.",
            "folder": "The folder of an existing worktree.",
        },
        refuse=_check_import,
        lines=one_worktree,
    ),
    CommandSpec("worktrees recreate", requests.RecreateWorktree, done="Recreated {branch}."),
    CommandSpec("worktrees kept", requests.ListKept, lines=_saved_work),
    CommandSpec("worktrees bring-back", requests.BringBack, lines=one_worktree),
    CommandSpec("worktrees run", requests.RunScript, done="Run script started in {path}."),
    CommandSpec("worktrees stop", requests.StopScript, done="Run script stopped."),
    CommandSpec("worktrees scripts", requests.ListScripts, lines=_scripts),
)
