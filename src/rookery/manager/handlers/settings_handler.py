"""Settings that the page may read and change, and what a form offers: models, modes, paths.

Only the settings on the list, and only in the user's own file: keys are no settings, and what
protects the user from the sessions is not changed where the sessions are watched.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import anyio.to_thread
import msgspec

from rookery import NAME
from rookery.core.limits import Limits
from rookery.core.queries import FoundPath, KnownMode, KnownModel
from rookery.core.settings_reference import Key, all_settings, shown
from rookery.core.text.fuzzy import best_matches
from rookery.errors import SettingsError
from rookery.manager.dependencies import Surroundings
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import ChangeSetting, FindPaths, ListModels, ListModes, ReadSettings
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.shown_rows import Done, SettingRow
from rookery.platform.user_folders import Places
from rookery.storage.settings_edits import change_settings, with_value, without
from rookery.storage.settings_files import FoundSettings, find_settings, held_in, other_voice
from rookery.storage.settings_values import checked, spelled

Type: TypeAlias = Literal["bool", "int", "float", "str", "list"]
_OFFERED = (
    "manager.running_limit manager.branch_prefix manager.auto_approve manager.notify ui.notify",
    "provider model mode reasoning_effort",
    "approval approve_edits approve_modes approve_subtasks approve_in_scope",
    "commands.allow commands.deny",
    "max_requests max_cost max_tokens max_minutes mistake_limit followup_seconds",
    "context.prompt context.instructions context.language context.agent_rules",
    "context.subfolder_rules",
)
OFFERED: tuple[Key, ...] = tuple(tuple(key.split(".")) for row in _OFFERED for key in row.split())
"""In the order in which they are shown."""
HEEDED_LATER: dict[Key, str] = {
    ("manager", "running_limit"): "The manager heeds it when it is started the next time.",
}
_TYPES: dict[Any, Type] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    Literal: "str",
    tuple: "list",
}
MOST_PATHS = 200
LONGEST_LETTERS = 1_000


class SettingsHandler:
    def __init__(
        self,
        project: Path,
        places: Places,
        environ: Mapping[str, str],
        surroundings: Surroundings,
        is_trusted: Callable[[], bool],
    ) -> None:
        self._is_trusted = is_trusted
        self._project = project
        self._places = places
        self._environ = environ
        self._surroundings = surroundings

    @property
    def handlers(self) -> Handlers:
        return {ReadSettings: self._read, ChangeSetting: self._change}

    async def _read(self, request: ReadSettings) -> tuple[SettingRow, ...]:
        return await anyio.to_thread.run_sync(self._rows)

    async def _change(self, request: ChangeSetting) -> Done:
        key = _offered(request.key)
        wanted = None if request.value is None else _decoded(key, request.value)
        if key == ("mode",) and wanted is not None:
            await self._insist_on_a_mode(wanted)
        return await anyio.to_thread.run_sync(self._write, key, wanted)

    async def _insist_on_a_mode(self, slug: str) -> None:
        known = [mode.slug for mode in await self._surroundings.modes()]
        if slug not in known:
            raise SettingsError(f"There is no mode {slug!r} here. There are: {', '.join(known)}.")

    def _found(self) -> FoundSettings:
        project = self._project if self._is_trusted() else None
        return find_settings(self._places.settings_file, project, self._environ, {})

    def _rows(self) -> tuple[SettingRow, ...]:
        found = self._found()
        return tuple(
            _row(key, held.value, held.origin) for key in OFFERED for held in (held_in(found, key),)
        )

    def _write(self, key: Key, wanted: Any) -> Done:
        """None takes what the user said about it out of their file."""
        file = self._places.settings_file
        if wanted is None:
            change_settings(file, lambda text: without(text, key, file), shared=False)
        else:
            change_settings(file, lambda text: with_value(text, key, wanted, file), shared=False)
        return Done(notes=tuple(filter(None, (self._other_voice(key), HEEDED_LATER.get(key)))))

    def _other_voice(self, key: Key) -> str:
        try:
            found = self._found()
        except SettingsError as error:  # what else is wrong in it does not undo the change
            return str(error)
        told = other_voice(found, key, self._places.settings_file)
        return f"{told}." if told else ""


def _offered(name: str) -> Key:
    key = tuple(name.split("."))
    if key not in OFFERED:
        raise SettingsError(
            f"{shown(name)} is not among the settings that are changed here. Others are changed "
            f"with: {NAME} config set"
        )
    return key


def _decoded(key: Key, text: str) -> Any:
    """None for `null`: nothing is chosen. Raises `SettingsError` if the setting takes no such
    value."""
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise SettingsError(f"The value for {spelled(key)} is no JSON.") from error
    return None if said is None else checked(key, said, name=spelled(key))


def _row(key: Key, held: Any, origin: str) -> SettingRow:
    setting = all_settings()[key]
    kind = _bare(setting.type)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return SettingRow(
        key=spelled(key),
        value=msgspec.json.encode(held).decode(),
        type=_TYPES[get_origin(kind) or kind],
        summary=setting.sentence,
        choices=tuple(map(str, choices)),
        source=origin,
    )


def _bare(kind: Any) -> Any:
    """A type without what is said about it, and without that there may be no value."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if NoneType in get_args(kind):
        return _bare(next(each for each in get_args(kind) if each is not NoneType))
    return kind


class LookupHandler:
    def __init__(self, surroundings: Surroundings, workspaces: Workspaces, places: Places) -> None:
        self._surroundings = surroundings
        self._workspaces = workspaces
        self._places = places

    @property
    def handlers(self) -> Handlers:
        return {
            ListModels: self._list_models,
            ListModes: self._list_modes,
            FindPaths: self._find_paths,
        }

    async def _list_models(self, request: ListModels) -> tuple[KnownModel, ...]:
        return await self._surroundings.models()

    async def _list_modes(self, request: ListModes) -> tuple[KnownMode, ...]:
        return await self._surroundings.modes()

    async def _find_paths(self, request: FindPaths) -> tuple[FoundPath, ...]:
        workspace = self._workspaces.of(request.session_id)
        letters = request.letters[:LONGEST_LETTERS]
        most = min(max(1, request.most), MOST_PATHS)
        look = partial(_found, workspace, self._places.own_folders, letters, most)
        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)


def _found(
    workspace: Path, own_folders: tuple[Path, ...], letters: str, most: int
) -> tuple[FoundPath, ...]:
    from rookery.workspace.files import WorkspaceFiles
    from rookery.workspace.search import WorkspaceFinder

    limits = Limits()
    files = WorkspaceFiles(workspace, limits, own_folders=own_folders, home=Path.home())
    known = WorkspaceFinder(workspace, files, limits).paths()
    return tuple(best_matches(known, letters, most, lambda each: each.path))
