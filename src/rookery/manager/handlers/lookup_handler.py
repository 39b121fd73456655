"""What a form offers while it is filled in: models, modes, and paths as they are typed."""

from functools import partial
from pathlib import Path

import anyio.to_thread

from rookery.core.limits import Limits
from rookery.core.queries import FoundPath, KnownMode, KnownModel
from rookery.core.text.fuzzy import best_matches
from rookery.manager.dependencies import Surroundings
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import FindPaths, ListModels, ListModes
from rookery.manager.sessions.session_folders import Workspaces
from rookery.platform.user_folders import Places

MOST_PATHS = 200
LONGEST_LETTERS = 1_000


class LookupsFamily:
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
