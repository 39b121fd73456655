"""Settings that the page may read and change, and lookups for its forms: models, modes, paths.

Only the settings in `OFFERED` can be changed, and only in the user's own file. API keys are not
settings, and settings that protect the user from sessions are not offered in the page.
"""

from functools import partial
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import anyio.to_thread
import msgspec

from rookery import NAME
from rookery.core.queries import FoundPath, TraceQuery, TraceRow
from rookery.core.settings_reference import Key, all_settings, shown
from rookery.errors import SettingsError
from rookery.manager import requests
from rookery.manager.dependencies import Dependencies
from rookery.manager.handlers.router import Handlers
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.sessions.session_record import same_fields
from rookery.manager.shown_rows import Done, SettingRow

Type: TypeAlias = Literal["bool", "int", "float", "str", "list"]
_OFFERED = (
    "manager.running_limit manager.branch_prefix manager.auto_approve manager.notify ui.notify",
    "manager.daily_budget",
    "manager.editor",
    "provider model mode reasoning_effort",
    "approval approve_edits approve_modes approve_subtasks approve_in_scope",
    "commands.allow commands.deny",
    "max_requests max_cost max_tokens max_minutes mistake_limit followup_seconds",
    "context.prompt context.instructions context.language context.agent_rules",
    "context.other_agents context.subfolder_rules",
)
OFFERED: tuple[Key, ...] = tuple(tuple(key.split(".")) for row in _OFFERED for key in row.split())
"""Keys of these settings, in display order."""
NEEDS_RESTART: dict[Key, str] = {
    ("manager", "running_limit"): "It takes effect when the manager is restarted."
}
_TYPES: dict[Any, Type] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    Literal: "str",
    tuple: "list",
}
MAX_PATHS = 200
MAX_LETTERS = 1_000


class SettingsHandler:
    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._settings = dependencies.user_settings

    @property
    def handlers(self) -> Handlers:
        return {
            requests.ReadSettings: lambda _: anyio.to_thread.run_sync(self._rows),
            requests.ChangeSetting: self._change,
        }

    async def _change(self, request: requests.ChangeSetting) -> Done:
        key = _offered(request.key)
        wanted = None if request.value is None else self._decode(key, request.value)
        if key == ("mode",) and wanted is not None:
            await self._check_mode(wanted)
        return await anyio.to_thread.run_sync(self._write, key, wanted)

    async def _check_mode(self, slug: str) -> None:
        known = [mode.slug for mode in await self._dependencies.modes()]
        if slug not in known:
            raise SettingsError(f"No such mode: {slug!r}. Available: {', '.join(known)}.")

    def _rows(self) -> tuple[SettingRow, ...]:
        values = self._settings.values_of(OFFERED)
        return tuple(_row(key, *each) for key, each in zip(OFFERED, values, strict=True))

    def _decode(self, key: Key, text: str) -> Any:
        """Decode and check a JSON value; None for `null`. Raises `SettingsError`."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise SettingsError(f"The value for {'.'.join(key)} is not JSON.") from error
        return None if value is None else self._settings.convert(key, value)

    def _write(self, key: Key, wanted: Any) -> Done:
        """Write the setting to the user's file; None removes it."""
        overriding_source = self._settings.change(key, wanted)
        return Done(notes=tuple(filter(None, (overriding_source, NEEDS_RESTART.get(key)))))


def _offered(name: str) -> Key:
    key = tuple(name.split("."))
    if key not in OFFERED:
        raise SettingsError(f"{shown(name)} cannot be changed here. Use: {NAME} config set")
    return key


def _row(key: Key, value: Any, origin: str) -> SettingRow:
    setting = all_settings()[key]
    kind = _bare_type(setting.type)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return SettingRow(
        key=".".join(key),
        value=msgspec.json.encode(value).decode(),
        type=_TYPES[get_origin(kind) or kind],
        summary=setting.sentence,
        choices=tuple(map(str, choices)),
        source=origin,
    )


def _bare_type(kind: Any) -> Any:
    """Strip `Annotated` and an optional `None` from a type."""
    if get_origin(kind) is Annotated:
        return _bare_type(get_args(kind)[0])
    if NoneType in get_args(kind):
        return _bare_type(next(each for each in get_args(kind) if each is not NoneType))
    return kind


class LookupHandler:
    """Read-only lookups: models, modes, paths and governance."""

    def __init__(self, dependencies: Dependencies, workspaces: Workspaces) -> None:
        self._dependencies = dependencies
        self._governance = dependencies.governance
        self._workspaces = workspaces

    @property
    def handlers(self) -> Handlers:
        return {
            requests.ListModels: lambda _: self._dependencies.models(),
            requests.ListModes: lambda _: self._dependencies.modes(),
            requests.FindPaths: self._find_paths,
            requests.ListIntents: lambda _: self._governance.intents(self._workspaces.of()),
            requests.ReadTrace: self._read_trace,
            requests.BlameFile: lambda each: self._governance.blame(
                self._workspaces.of(each.session_id), each.path
            ),
        }

    async def _find_paths(self, request: requests.FindPaths) -> tuple[FoundPath, ...]:
        workspace = self._workspaces.of(request.session_id)
        letters = request.letters[:MAX_LETTERS]
        most = min(max(1, request.most), MAX_PATHS)
        look = partial(self._dependencies.find_paths, workspace, letters, most)
        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)

    async def _read_trace(self, request: requests.ReadTrace) -> tuple[TraceRow, ...]:
        query = TraceQuery(**same_fields(request, TraceQuery))
        return await self._governance.trace(self._workspaces.of(request.session_id), query)
