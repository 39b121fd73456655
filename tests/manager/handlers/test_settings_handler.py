"""Settings as a page reads and changes them; models, modes and paths for its forms."""

import json
import tomllib
import uuid
from pathlib import Path
from typing import Any

import pytest

from rookery.core.queries import FoundPath, KnownMode, KnownModel
from rookery.core.settings_reference import all_settings
from rookery.errors import CommandRejected, SettingsError, StorageError
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.settings_handler import OFFERED, LookupHandler, SettingsHandler
from rookery.manager.requests import ChangeSetting, FindPaths, ReadSettings
from rookery.manager.sessions.session_folders import SessionFolders, SessionLaunch, Workspaces
from rookery.manager.shown_rows import SettingRow
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places, find_places
from rookery.storage.settings_edits import change_settings, with_value

pytestmark = pytest.mark.anyio


class FakeProject(ProjectDependencies):
    """A project with fixed models and modes."""

    async def models(self) -> tuple[KnownModel, ...]:
        return (KnownModel(provider="scripted", model="a"),)

    async def modes(self) -> tuple[KnownMode, ...]:
        return (KnownMode(slug="code", name="Code"), KnownMode(slug="ask", name="Ask"))


class SettingsHarness:
    def __init__(self, folder: Path, **environ: str) -> None:
        self.project = folder / "work"
        self.project.mkdir(exist_ok=True)
        self.environ = {"ROOKERY_HOME": str(folder / "home"), **environ}
        self.places: Places = find_places(self.environ)
        self.file = self.places.settings_file
        reported = FakeProject(self.project, self.places, self.environ)
        workspaces = Workspaces(self.project, self.places)
        self.handler = Router([SettingsHandler(reported), LookupHandler(reported, workspaces)])

    async def row(self, key: str) -> SettingRow:
        return next(row for row in await self.handler.do(ReadSettings()) if row.key == key)

    async def set(self, key: str, value: Any) -> tuple[str, ...]:
        return (await self.handler.do(ChangeSetting(key=key, value=json.dumps(value)))).notes

    def stored(self) -> dict[str, Any]:
        return tomllib.loads(self.file.read_text()) if self.file.exists() else {}

    def session_in(self, workspace: Path) -> str:
        session_id = str(uuid.uuid4())
        launch = SessionLaunch(project=str(self.project), workspace=str(workspace))
        SessionFolders(self.places).of(session_id).keep_launch(launch)
        return session_id

    async def paths(self, letters: str, session_id: str = "", most: int = 20) -> list[str]:
        request = FindPaths(letters=letters, session_id=session_id, most=most)
        return [found.path for found in await self.handler.do(request)]


@pytest.fixture
def harness(tmp_path: Path) -> SettingsHarness:
    return SettingsHarness(tmp_path)


async def test_every_setting_row_lists_its_choices_and_purpose(harness: SettingsHarness):
    rows = {row.key: row for row in await harness.handler.do(ReadSettings())}
    assert len(rows) == len(OFFERED)
    assert rows["manager.running_limit"] == SettingRow(
        key="manager.running_limit",
        value="5",
        type="int",
        summary="Sessions that work at the same time; more wait.",
        source="default",
    )
    levels = ("plan", "ask", "edits", "sandboxed", "auto")
    assert (rows["approval"].choices, rows["approval"].value) == (levels, "null")
    assert rows["context.prompt"].choices == ("auto", "full", "compact", "guided")
    assert rows["commands.deny"].type == "list"
    assert rows["max_cost"].type == "float"
    assert rows["approve_edits"].type == "bool"
    assert rows["model"].type == "str"
    assert not harness.file.exists(), "reading creates no file"


def test_offered_settings_exclude_secrets_and_the_sandbox():
    assert set(OFFERED) <= set(all_settings())
    sections = {key[0] for key in OFFERED if len(key) > 1}
    assert sections == {"manager", "ui", "commands", "context"}
    assert not [key for key in OFFERED if "key" in key[-1] or "url" in key[-1]]


CHANGES = {
    "a number": ("manager.running_limit", 3),
    "a switch": ("approve_edits", True),
    "a text": ("context.instructions", 'Say "please".\nAnd \u00e4.'),
    "a choice": ("approval", "ask"),
    "a list": ("commands.deny", ["rm", "git push"]),
    "a whole number for another": ("max_cost", 2),
    "a mode": ("mode", "ask"),
}


@pytest.mark.parametrize(("key", "value"), CHANGES.values(), ids=CHANGES)
async def test_a_setting_can_be_changed_and_reset(harness: SettingsHarness, key: str, value: Any):
    before = await harness.row(key)
    await harness.set(key, value)
    row = await harness.row(key)
    assert (json.loads(row.value), row.source) == (value, str(harness.file))
    await harness.handler.do(ChangeSetting(key=key))
    assert await harness.row(key) == before
    await harness.set(key, value)
    await harness.set(key, None)
    assert await harness.row(key) == before


REFUSED = {
    "too many": ("manager.running_limit", "33", "from 1 to 32"),
    "of another type": ("manager.running_limit", '"3"', "a whole number"),
    "no choice": ("approval", '"yes"', '"sandboxed" or "auto"'),
    "no JSON": ("model", "{", "is not JSON"),
    "no number": ("max_cost", "NaN", "is not JSON"),
    "no mode": ("mode", '"nonsense"', "Available: code, ask"),
    "empty": ("model", '""', "non-empty"),
    "half a character": ("model", '"\\ud800"', ""),
    "a section": ("manager", "{}", "cannot be changed here"),
    "a key": ("providers.openai.api_key", '"k"', "cannot be changed here"),
    "the sandbox": ("sandbox.use", '"off"', "rookery config set"),
    "unknown": ("nonsense", "1", "cannot be changed here"),
    "longer than a file may be": ("context.instructions", json.dumps("x" * 1500), "shorten"),
}


@pytest.mark.parametrize(("key", "value", "words"), REFUSED.values(), ids=REFUSED)
async def test_an_invalid_value_is_refused_and_changes_nothing(
    harness: SettingsHarness, key: str, value: str, words: str
):
    await harness.set("max_requests", 7)
    before = harness.file.read_bytes()
    with pytest.raises(SettingsError) as refused:
        await harness.handler.do(ChangeSetting(key=key, value=value))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert harness.file.read_bytes() == before
    assert await harness.row("max_requests")


async def test_only_a_trusted_project_can_tighten_settings(harness: SettingsHarness):
    of_project = harness.project / ".rookery" / "settings.toml"
    of_project.parent.mkdir()
    of_project.write_text("max_requests = 3\n[manager]\nauto_approve = false\nrunning_limit = 9\n")
    await harness.set("manager.running_limit", 4)
    assert (await harness.row("max_requests")).source == "default"
    TrustStore(harness.places.trust_file).trust(harness.project)
    row = await harness.row("max_requests")
    assert (row.value, row.source) == ("3", str(of_project))
    assert (await harness.row("manager.auto_approve")).value == "false"
    assert (await harness.row("manager.running_limit")).value == "4", (
        "the project cannot raise the limit"
    )
    (note,) = await harness.set("max_requests", 8)
    assert note == f"{of_project} overrides it here: 3."
    assert harness.stored()["max_requests"] == 8


async def test_overrides_and_needed_restarts_are_reported(tmp_path: Path):
    harness = SettingsHarness(tmp_path, ROOKERY_MODEL="from-outside")
    assert await harness.set("model", "mine") == (
        'ROOKERY_MODEL overrides it here: "from-outside".',
    )
    assert (await harness.row("model")).source == "ROOKERY_MODEL"
    (later,) = await harness.set("manager.running_limit", 2)
    assert "is restarted" in later


async def test_a_faulty_settings_file_is_reported_and_can_be_fixed(harness: SettingsHarness):
    harness.file.parent.mkdir(parents=True)
    harness.file.write_text('approval = "maybe"\n')
    with pytest.raises(SettingsError, match="approval must be"):
        await harness.handler.do(ReadSettings())
    await harness.set("approval", "ask")
    assert (await harness.row("approval")).value == '"ask"'


def test_a_settings_file_over_the_size_limit_can_still_be_changed(harness: SettingsHarness):
    harness.file.parent.mkdir(parents=True)
    harness.file.write_text(f"# {'x' * 1200}\nmode = 'ask'\n")
    change_settings(
        harness.file, lambda text: with_value(text, ("mode",), "code", harness.file), shared=False
    )
    assert harness.stored() == {"mode": "code"}


def filled(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


async def test_matching_paths_are_listed_best_first(harness: SettingsHarness):
    filled(harness.project, "src/app.py", "src/maple/pine.txt", "docs/a.md")
    assert (await harness.paths("app"))[0] == "src/app.py"
    assert await harness.paths("zzz") == []
    found = await harness.handler.do(FindPaths(letters="docs"))
    assert found[0] == FoundPath(path="docs", folder=True)


async def test_the_number_of_listed_paths_is_limited(harness: SettingsHarness):
    filled(harness.project, *(f"file{number}" for number in range(250)))
    for most, reported in ((2, 2), (0, 1), (-5, 1), (10_000, 200)):
        assert len(await harness.paths("file", most=most)) == reported, most


async def test_paths_are_listed_from_the_folder_of_the_session_only(harness: SettingsHarness):
    worktree = harness.project.parent / "worktree"
    filled(worktree, "there.txt")
    filled(harness.project, "here.txt")
    assert await harness.paths("txt", harness.session_in(worktree)) == ["there.txt"]
    gone = harness.session_in(harness.project.parent / "gone")
    with pytest.raises(CommandRejected, match="does not exist"):
        await harness.paths("txt", gone)
    with pytest.raises(CommandRejected, match="No such session"):
        await harness.paths("txt", str(uuid.uuid4()))
    with pytest.raises(StorageError):
        await harness.paths("txt", "../../etc")


async def test_a_session_list_in_the_project_cannot_redirect_the_path_search(
    harness: SettingsHarness,
):
    """Files of a clone do not decide where a session works."""
    outside = harness.project.parent / "private"
    filled(outside, "secret.txt")
    session_id = str(uuid.uuid4())
    filled(harness.project, ".rookery/agent-manager.json")
    (harness.project / ".rookery/agent-manager.json").write_text(
        f'{{"sessions": [{{"sessionId": "{session_id}", "parallelMode": '
        f'{{"enabled": true, "worktreePath": "{outside}"}}}}]}}'
    )
    with pytest.raises(CommandRejected, match="No such session"):
        await harness.paths("secret", session_id)
