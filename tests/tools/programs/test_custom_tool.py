from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rookery.app.project_tools import OfferedTools, open_custom_tools
from rookery.core.asks import AskKind, Decision
from rookery.core.blocks import ToolCall
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Permit
from rookery.engine.ports.tool import Tool
from rookery.errors import Denied, ToolError
from rookery.platform.user_folders import Places, find_places
from rookery.tools.programs.custom_tool import CustomToolGuard
from rookery.workspace.files import WorkspaceFiles
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio


class Project:
    """A trusted folder with a tool that is not approved yet."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, Limits())
        self.places: Places = find_places({"ROOKERY_HOME": str(folder / "home")})
        self.tools = self.bench.root / ".rookery" / "tools"
        self.tools.mkdir(parents=True)
        self.program = self.tools / "say.sh"
        self.program.write_text("cat; echo")
        self.definition = self.tools / "say_it.toml"
        self.definition.write_text(
            'description = "Say it"\ncommand = ["sh", "say.sh"]\n'
            'parameters.words = {type = "string", required = true}\n'
        )

    def tool(self) -> Tool[Any]:
        """As a new run reads it."""
        return self.offered(attended=True).tools["say_it"]

    def offered(self, *, attended: bool) -> OfferedTools:
        files = cast(WorkspaceFiles, self.bench.context.files)
        return open_custom_tools(self.places, files.boundaries, trusted=True, attended=attended)

    def run(self, command: str) -> None:
        """Make the tool run another command."""
        self.definition.write_text(
            f'description = "Say it"\ncommand = {command}\nparameters.words.type = "string"\n'
        )

    async def prepare(self) -> Action:
        return await self.bench.prepare(self.tool(), words="it's $HOME")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def permit(action: Action, *, by_hand: bool) -> Permit:
    return Permit(digest=action.digest, command=action.command, by_hand=by_hand)


async def decision(action: Action) -> Decision:
    call = ToolCall(id="c1", name="say_it", arguments={})
    return (await CustomToolGuard().before(call, action)).decision


async def test_the_question_names_the_tool_its_program_line_and_the_arguments(project: Project):
    action = await project.prepare()
    assert action.ask is AskKind.COMMAND
    assert action.title == "Use the tool say_it: sh .rookery/tools/say.sh"
    assert action.command.endswith(" | sh .rookery/tools/say.sh")
    assert action.notes == ["tool: say_it", """arguments: {"words": "it's $HOME"}"""]


async def test_a_manual_approval_covers_the_current_version_of_the_tool(project: Project):
    action = await project.prepare()
    assert await decision(action) is Decision.ASK
    with pytest.raises(Denied, match="have not approved"):
        await action.perform(permit(action, by_hand=False))
    outcome = await action.perform(permit(action, by_hand=True))
    assert """{"words": "it's $HOME"}""" in outcome.text
    again = await project.prepare()
    assert await decision(again) is Decision.NONE
    await again.perform(permit(again, by_hand=False))


async def test_a_program_that_has_changed_is_asked_about_again(project: Project):
    action = await project.prepare()
    await action.perform(permit(action, by_hand=True))
    project.program.write_text("echo 42")
    changed = await project.prepare()
    assert await decision(changed) is Decision.ASK
    with pytest.raises(Denied, match="changed since you approved"):
        await changed.perform(permit(changed, by_hand=False))


@pytest.mark.parametrize(
    "change",
    [
        lambda project: project.program.write_text("echo 42"),
        lambda project: project.definition.write_text(project.definition.read_text() + "#"),
        lambda project: project.program.unlink(),
    ],
)
async def test_a_change_during_the_question_stops_the_call(
    project: Project, change: Callable[[Project], object]
):
    action = await project.prepare()
    change(project)
    with pytest.raises(ToolError, match=r"(have changed since|changed after)"):
        await action.perform(permit(action, by_hand=True))


async def test_a_file_that_a_script_in_the_line_names_counts_as_the_program(project: Project):
    inner = project.bench.root / "inner.sh"
    inner.write_text("echo 1")
    project.run('["sh", "-c", "cat && sh inner.sh"]')
    action = await project.prepare()
    await action.perform(permit(action, by_hand=True))
    assert await decision(await project.prepare()) is Decision.NONE
    inner.write_text("echo 42")
    assert await decision(await project.prepare()) is Decision.ASK


async def test_a_module_that_the_tool_runs_counts_as_the_program(project: Project):
    module = project.bench.root / "pkg"
    module.mkdir()
    (module / "__main__.py").write_text("print(input())")
    project.run('["python3", "-B", "-m", "pkg"]')
    action = await project.prepare()
    await action.perform(permit(action, by_hand=True))
    assert await decision(await project.prepare()) is Decision.NONE
    (module / "json.py").write_text("print(42)")
    assert await decision(await project.prepare()) is Decision.ASK


async def test_a_tool_whose_program_cannot_be_covered_asks_for_every_call(project: Project):
    folder = project.bench.root / "sub"
    folder.mkdir()
    (folder / "run.sh").write_text("cat")
    project.run('["sh", "-c", "cd sub && sh ./run.sh"]')
    for _ in range(2):
        action = await project.prepare()
        assert await decision(action) is Decision.ASK
        with pytest.raises(Denied, match="needs approval for every call, because cd can load"):
            await action.perform(permit(action, by_hand=False))
        await action.perform(permit(action, by_hand=True))
    assert "say_it" not in project.offered(attended=False).tools
    assert "for every call" in project.offered(attended=False).problems[0]


async def test_a_program_replaced_by_a_link_counts_as_changed(project: Project, tmp_path: Path):
    action = await project.prepare()
    await action.perform(permit(action, by_hand=True))
    moved = tmp_path / "same.sh"
    project.program.rename(moved)
    project.program.symlink_to(moved)
    assert await decision(await project.prepare()) is Decision.ASK


async def test_an_approval_that_cannot_be_stored_runs_nothing(project: Project):
    project.places.tools_agreed.parent.mkdir(parents=True)
    project.places.tools_agreed.write_text("damaged")
    action = await project.prepare()
    assert await decision(action) is Decision.ASK
    with pytest.raises(ToolError, match="was not run"):
        await action.perform(permit(action, by_hand=True))
