"""Models, modes and paths, for a form that is being filled in."""

import uuid
from pathlib import Path

import pytest

from rookery.core.queries import FoundPath
from rookery.errors import CommandRejected, StorageError
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.settings_handler import LookupHandler
from rookery.manager.requests import (
    FindPaths,
    ListModels,
    ListModes,
)
from rookery.manager.sessions.session_folders import SessionFolders, SessionLaunch, Workspaces
from rookery.platform.user_folders import Places, find_places

from .test_settings_handler import Told

pytestmark = pytest.mark.anyio


class House:
    def __init__(self, folder: Path) -> None:
        self.project = folder / "work"
        self.project.mkdir()
        environ = {"ROOKERY_HOME": str(folder / "home")}
        self.places: Places = find_places(environ)
        workspaces = Workspaces(self.project, self.places)
        self.desk = Router([LookupHandler(Told(self.project, self.places, environ), workspaces)])

    def session_in(self, workspace: Path) -> str:
        session_id = str(uuid.uuid4())
        launch = SessionLaunch(project=str(self.project), workspace=str(workspace))
        SessionFolders(self.places).of(session_id).keep_launch(launch)
        return session_id

    async def paths(self, letters: str, session_id: str = "", most: int = 20) -> list[str]:
        request = FindPaths(letters=letters, session_id=session_id, most=most)
        return [found.path for found in await self.desk.do(request)]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def filled(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


async def test_models_and_modes_are_those_of_the_surroundings(house: House):
    assert [model.model for model in await house.desk.do(ListModels())] == ["a"]
    assert [mode.slug for mode in await house.desk.do(ListModes())] == ["code", "ask"]


async def test_paths_fit_the_letters_best_ones_first(house: House):
    filled(house.project, "src/app.py", "src/maple/pine.txt", "docs/a.md")
    assert (await house.paths("app"))[0] == "src/app.py"
    assert await house.paths("zzz") == []
    found = await house.desk.do(FindPaths(letters="docs"))
    assert found[0] == FoundPath(path="docs", folder=True)


@pytest.mark.parametrize(("most", "given"), [(2, 2), (0, 1), (-5, 1), (10_000, 200)])
async def test_no_more_are_told_than_were_asked_for(house: House, most: int, given: int):
    filled(house.project, *(f"file{number}" for number in range(250)))
    assert len(await house.paths("file", most=most)) == given


async def test_what_is_ignored_or_version_controls_own_is_not_told(house: House):
    filled(house.project, ".git/config", "kept/a.txt", "secrets/a.txt", "a.log")
    (house.project / ".rookeryignore").write_text("secrets/\n*.log\n")
    assert await house.paths("a.txt") == ["kept/a.txt"]
    assert await house.paths("a.log") == []
    assert await house.paths("config") == []


async def test_a_session_is_asked_in_its_own_folder_and_never_elsewhere(house: House):
    worktree = house.project.parent / "worktree"
    filled(worktree, "there.txt")
    filled(house.project, "here.txt")
    assert await house.paths("txt", house.session_in(worktree)) == ["there.txt"]
    gone = house.session_in(house.project.parent / "gone")
    with pytest.raises(CommandRejected, match="does not exist"):
        await house.paths("txt", gone)
    with pytest.raises(CommandRejected, match="No such session"):
        await house.paths("txt", str(uuid.uuid4()))
    with pytest.raises(StorageError):
        await house.paths("txt", "../../etc")


async def test_a_list_in_the_project_cannot_send_us_elsewhere(house: House):
    """What a clone brings says nothing about where a session works."""
    outside = house.project.parent / "private"
    filled(outside, "secret.txt")
    session_id = str(uuid.uuid4())
    filled(house.project, ".rookery/agent-manager.json")
    (house.project / ".rookery/agent-manager.json").write_text(
        f'{{"sessions": [{{"sessionId": "{session_id}", "parallelMode": '
        f'{{"enabled": true, "worktreePath": "{outside}"}}}}]}}'
    )
    with pytest.raises(CommandRejected, match="No such session"):
        await house.paths("secret", session_id)
