"""What else `rookery sessions` can tell: models, modes, branches, paths, intents, the trace,
settings, devices."""

import json
from collections.abc import Iterable
from datetime import datetime

import click

from rookery.cli.exit_codes import Exit
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.governance.cli.intents_common import aligned
from rookery.manager.cli.sessions_common import ManagerClient, with_manager
from rookery.manager.requests import (
    BlameFile,
    ChangeSetting,
    FindPaths,
    ListBranches,
    ListDevices,
    ListIntents,
    ListModels,
    ListModes,
    ReadSettings,
    ReadTrace,
    RevokeDevice,
)
from rookery.manager.shown_rows import BlamedLine, TraceRow

_session_option = click.option(
    "--session", default="", metavar="ID", help="In the folder of this session."
)


def _tell(client: ManagerClient, answer: object, rows: Iterable[list[str]], nothing: str) -> int:
    table = list(rows)
    client.tell(answer, aligned(table) if table else [nothing])
    return Exit.DONE


async def _session_id(client: ManagerClient, given: str) -> str:
    return (await client.session(given)).session_id if given else ""


@click.command("models")
@with_manager
async def models_command(client: ManagerClient) -> int:
    """Print the models that a session could be started with."""
    found = await client.do(ListModels())
    return _tell(client, found, ([each.provider, each.model] for each in found), "There is none.")


@click.command("modes")
@with_manager
async def modes_command(client: ManagerClient) -> int:
    """Print the modes that a session could be started in."""
    found = await client.do(ListModes())
    return _tell(client, found, ([each.slug, each.name] for each in found), "There is none.")


@click.command("branches")
@with_manager
async def branches_command(client: ManagerClient) -> int:
    """Print the branches of the project."""
    found = await client.do(ListBranches())
    return _tell(client, found, ([each] for each in found), "There is none.")


@click.command("paths")
@click.argument("letters", default="")
@click.option("--most", type=click.IntRange(1, 1000), default=20, help="So many at most.")
@_session_option
@with_manager
async def paths_command(client: ManagerClient, letters: str, most: int, session: str) -> int:
    """Print files and folders that fit some LETTERS, the best first."""
    session_id = await _session_id(client, session)
    found = await client.do(FindPaths(letters=letters, session_id=session_id, most=most))
    rows = ([f"{each.path}/" if each.folder else each.path] for each in found)
    return _tell(client, found, rows, "Nothing fits.")


@click.command("intents")
@with_manager
async def intents_command(client: ManagerClient) -> int:
    """Print the intents of the project."""
    found = await client.do(ListIntents())
    rows = ([each.id, each.status, str(each.writes), each.name or each.problem] for each in found)
    return _tell(client, found, rows, "There are no intents here.")


@click.command("trace")
@click.option("--intent", default="", help="Only what was done for this one.")
@click.option("--path", default="", help="Only what was done to this file.")
@click.option("--most", type=click.IntRange(1, 10_000), default=100, help="So many at most.")
@_session_option
@with_manager
async def trace_command(
    client: ManagerClient, intent: str, path: str, most: int, session: str
) -> int:
    """Print what was done and recorded, newest first."""
    session_id = await _session_id(client, session)
    request = ReadTrace(intent=intent, path=path, session_id=session_id, most=most)
    found = await client.do(request)
    return _tell(client, found, map(_record, found), "Nothing is recorded.")


@click.command("blame")
@click.argument("path")
@_session_option
@with_manager
async def blame_command(client: ManagerClient, path: str, session: str) -> int:
    """Print for each line of a file for which intent it was written."""
    session_id = await _session_id(client, session)
    found = await client.do(BlameFile(path=path, session_id=session_id))
    return _tell(client, found, map(_blamed, found), "There is no line.")


@click.command("settings")
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--reset", is_flag=True, help="Back to what is usual.")
@with_manager
async def settings_command(
    client: ManagerClient, key: str | None, value: str | None, reset: bool
) -> int:
    """Print the settings that matter here. With a VALUE one is changed, for you."""
    if key is not None and (reset or value is not None):
        if reset and value is not None:
            raise SettingsError("Give a VALUE or --reset, not both.")
        request = ChangeSetting(key=key, value=None if value is None else _as_json(value))
        return await client.carry_out(request, f"Changed {harmless_line(key)}.")
    found = await client.do(ReadSettings())
    wanted = tuple(each for each in found if key in (None, each.key))
    if not wanted:
        raise SettingsError(f"There is no setting {key} here.")
    rows = ([each.key, each.value, each.source, each.summary] for each in wanted)
    return _tell(client, wanted, rows, "")


@click.group("devices")
def devices_group() -> None:
    """Phones and other machines that were paired with the manager."""


@devices_group.command("list")
@with_manager
async def devices_list_command(client: ManagerClient) -> int:
    """Print the devices that were paired."""
    found = await client.do(ListDevices())
    rows = ([each.id, each.name, _when(each.paired), _when(each.seen)] for each in found)
    return _tell(client, found, rows, "No device is paired.")


@devices_group.command("revoke")
@click.argument("device", metavar="DEVICE")
@with_manager
async def devices_revoke_command(client: ManagerClient, device: str) -> int:
    """Let a device in no longer."""
    return await client.carry_out(RevokeDevice(id=device), f"{harmless_line(device)} is revoked.")


def _as_json(value: str) -> str:
    """What is no JSON is a text."""
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return json.dumps(value)
    return value


def _record(row: TraceRow) -> list[str]:
    about = row.summary or ", ".join(row.paths)
    return [_when(row.ts), row.kind, row.intent or "-", row.tool or "-", about]


def _blamed(line: BlamedLine) -> list[str]:
    return [line.intent or "-", line.tool or "-", str(line.line), line.text]


def _when(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown time"
