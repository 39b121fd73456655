"""Queries to a host, and the commands it refuses."""

import os
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest

from rookery.app.host_queries import Answers
from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice, choose_model
from rookery.app.task_hooks import Consent
from rookery.core.asks import AskKind
from rookery.core.commands import (
    Answer,
    CloseTask,
    OpenTask,
    Rewind,
    Speak,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.event_list import EventList
from rookery.core.facts import (
    ApprovalSwitched,
    Asked,
    Event,
    Fact,
    ModelSwitched,
    RequestStarted,
    TaskOpened,
)
from rookery.core.folds.view_start import view_start
from rookery.core.limits import MIB
from rookery.core.queries import (
    AskAbout,
    AskCommands,
    AskDifferences,
    AskModels,
    AskModes,
    AskPaths,
    AskRehearsal,
    AskTasks,
    AskViewStart,
    FileDifference,
    FoundPath,
    RestoreRehearsal,
)
from rookery.core.settings import Settings
from rookery.errors import CommandRejected, StorageError
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import Host
from rookery.storage.sessions import TaskStore
from support.long_log import numbered, turns

pytestmark = pytest.mark.anyio

SCRIPT = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "two\\n"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""
OTHER = """\
- say: This was said by the first.
- calls:
  - {tool: attempt_completion, arguments: {result: "Done by the other."}}
"""


@asynccontextmanager
async def opened(folder: Path, script: str = SCRIPT, **consent: bool) -> AsyncIterator[Host]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (folder / "script.yaml").write_text(script)
    (folder / "other.yaml").write_text(OTHER)
    places = find_places({"ROOKERY_HOME": str(folder / "home")})
    choice = ModelChoice("scripted", str(folder / "script.yaml"), None, None)

    def choose(settings: Settings) -> ModelChoice:
        return choose_model(settings, {}, places.keys_file, None)

    async with open_host(
        Settings(),
        choice,
        TaskStore(places),
        work,
        places,
        Consent(trusted=True, **consent),
        choose,
    ) as host:
        yield host


async def until_asked(host: Host, ask: AskKind, task_id: str = "t", after: int = 0) -> Event:
    with anyio.fail_after(60):
        async for event in host.follow(task_id, after):
            if isinstance(event.fact, Asked):
                assert event.fact.ask is ask, event.fact
                return event
    raise AssertionError("The task ended without asking.")


async def say_yes(host: Host, asked: Event) -> None:
    assert isinstance(asked.fact, Asked)
    await host.send(
        Answer(task_id="t", ask_id=asked.fact.ask_id, reply="yes", digest=asked.fact.digest)
    )


async def facts(host: Host, kind: type, seen_until: int) -> list[object]:
    found = []
    async for event in host.follow("t"):
        if isinstance(event.fact, kind):
            found.append(event.fact)
        if event.seq >= seen_until:
            break
    return found


async def test_a_host_lists_its_files_commands_and_skills(tmp_path: Path):
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "work" / "src" / "view.py").write_text("pass\n")
    (tmp_path / "work" / ".rookery" / "commands").mkdir(parents=True)
    (tmp_path / "work" / ".rookery" / "commands" / "ship.md").write_text("Ship it.\n")
    for name in ("ship", "taste"):
        skill = tmp_path / "work" / ".rookery" / "skills" / name
        skill.mkdir(parents=True)
        words = f"---\nname: {name}\ndescription: How to {name}.\n---\nWith care.\n"
        (skill / "SKILL.md").write_text(words)
    async with opened(tmp_path) as host:
        about = await host.query(AskAbout())
        assert (about.provider, about.model, about.mode) == ("scripted", "script.yaml", "code")
        assert about.workspace == str(tmp_path / "work")
        assert {mode.slug for mode in await host.query(AskModes())} >= {"code", "ask", "debug"}
        names = {command.name: command.source for command in await host.query(AskCommands())}
        assert names == {
            "init": "built-in",
            "review": "built-in",
            "ship": "project",
            "taste": "skill",
        }
        (model, *_) = await host.query(AskModels())
        assert model.provider == "scripted"
        assert await host.query(AskPaths(letters="vipy")) == (FoundPath(path="src/view.py"),)
        assert FoundPath(path="src", folder=True) in await host.query(AskPaths())
        assert await host.query(AskTasks()) == ()


async def test_a_task_is_found_by_full_text_search(tmp_path: Path):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make the giraffe."))
        await until_asked(host, AskKind.TOOL)
        assert [task.task_id for task in await host.query(AskTasks())] == ["t"]
        (found,) = await host.query(AskTasks(words="giraffe"))
        assert "giraffe" in found.excerpt
        assert await host.query(AskTasks(words="elephant")) == ()


async def test_stored_tasks_say_whether_they_are_running(tmp_path: Path):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        await until_asked(host, AskKind.TOOL)
        assert [task.running for task in await host.query(AskTasks())] == [True]
    async with opened(tmp_path) as host:
        assert [task.running for task in await host.query(AskTasks())] == [False]


async def test_changes_can_be_inspected_and_an_undo_previewed(tmp_path: Path):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        asked = await until_asked(host, AskKind.TOOL)
        await say_yes(host, asked)
        again = await until_asked(host, AskKind.TOOL, after=asked.seq)
        (first,) = await host.query(AskDifferences(task_id="t"))
        assert first == FileDifference(path="made.txt", change="added", diff="@@ -0,0 +1 @@\n+one")
        await say_yes(host, again)
        await until_asked(host, AskKind.COMPLETION_RESULT, after=again.seq)
        (both,) = await host.query(AskDifferences(task_id="t"))
        assert (both.change, both.diff.endswith("+two")) == ("added", True)
        (second,) = await host.query(AskDifferences(task_id="t", since=again.seq))
        assert (second.change, "-one" in second.diff) == ("changed", True)
        (before,) = await host.query(AskDifferences(task_id="t", until=again.seq))
        assert before == first
        rehearsed = await host.query(AskRehearsal(task_id="t", to=1))
        assert rehearsed == RestoreRehearsal(removed=("made.txt",))
        assert (tmp_path / "work" / "made.txt").read_text() == "two\n"


async def test_a_previewed_undo_names_what_no_checkpoint_has(tmp_path: Path):
    script = """\
- calls: [{tool: execute_command, arguments: {command: rm large; echo x > made}}]
- say: Done.
"""
    async with opened(tmp_path, script) as host:
        with (tmp_path / "work" / "large").open("wb") as file:
            file.truncate(21 * MIB)
        await host.send(OpenTask(task_id="t", text="Remove it."))
        asked = await until_asked(host, AskKind.COMMAND)
        await say_yes(host, asked)
        await until_asked(host, AskKind.COMPLETION_RESULT, after=asked.seq)
        rehearsed = await host.query(AskRehearsal(task_id="t", to=1))
        assert rehearsed == RestoreRehearsal(removed=("made",), unsaved=("large",))


async def test_a_task_continues_with_another_model(tmp_path: Path):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        asked = await until_asked(host, AskKind.TOOL)
        other = str(tmp_path / "other.yaml")
        await host.send(SwitchModel(task_id="t", provider="scripted", model=other))
        await say_yes(host, asked)
        done = await until_asked(host, AskKind.COMPLETION_RESULT, after=asked.seq)
        assert isinstance(done.fact, Asked)
        models = [fact.model for fact in await facts(host, RequestStarted, done.seq)]
        assert models[-1] == other
        assert len(await facts(host, ModelSwitched, done.seq)) == 1


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (SwitchModel(task_id="t", provider="nobody", model="x"), "No such provider: 'nobody'"),
        (
            OpenTask(task_id="t9", text="x", provider="nobody", model="x"),
            "No such provider: 'nobody'",
        ),
        (SwitchModel(task_id="t", provider="anthropic", model="x"), "No key for anthropic"),
        (SwitchMode(task_id="t", mode="dream"), "No such mode: 'dream'"),
        (SwitchApproval(task_id="u", automatic=True), "Session u is not open"),
    ],
    ids=["provider", "provider of a new task", "key", "mode", "task"],
)
async def test_an_unusable_provider_or_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: object, why: str
):
    for name in os.environ:
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        asked = await until_asked(host, AskKind.TOOL)
        with pytest.raises(CommandRejected, match=why):
            await host.send(command)  # type: ignore[arg-type]
        assert await facts(host, ModelSwitched, asked.seq) == []


async def test_auto_approve_can_be_switched_on_and_off(tmp_path: Path):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        asked = await until_asked(host, AskKind.TOOL)
        await host.send(SwitchApproval(task_id="t", automatic=True))
        await say_yes(host, asked)
        done = await until_asked(host, AskKind.COMPLETION_RESULT, after=asked.seq)
        assert (tmp_path / "work" / "made.txt").read_text() == "two\n"
        assert done.seq > asked.seq


async def test_rewinding_does_not_switch_auto_approve_back_on(
    tmp_path: Path,
):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        asked = await until_asked(host, AskKind.TOOL)
        await host.send(SwitchApproval(task_id="t", automatic=True))
        await host.send(Speak(task_id="t", message_id="m", text="Go on."))
        automatic_at = asked.seq + 2
        await host.send(SwitchApproval(task_id="t", automatic=False))
        await host.send(Rewind(task_id="t", to=automatic_at))
        resumed = await until_asked(host, AskKind.RESUME_TASK, after=asked.seq)
        switched = await facts(host, ApprovalSwitched, resumed.seq)
        assert [fact.automatic for fact in switched] == [True, False, False]  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["nosuch", "../x\x1b[31m", ""])
async def test_a_task_with_an_unknown_mode_is_not_opened(tmp_path: Path, mode: str):
    async with opened(tmp_path) as host:
        with pytest.raises(CommandRejected, match="No such mode") as refusal:
            await host.send(OpenTask(task_id="t", text="Make it.", mode=mode))
        assert str(refusal.value).isprintable()
        assert await host.query(AskTasks()) == ()


@pytest.mark.parametrize("model", ["", " ", "claude-z\x00\n", "a\x1b[31m"])
async def test_an_invalid_model_name_is_refused(tmp_path: Path, model: str):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        asked = await until_asked(host, AskKind.TOOL)
        with pytest.raises(CommandRejected, match="is not a valid model name") as refusal:
            await host.send(SwitchModel(task_id="t", provider="scripted", model=model))
        assert str(refusal.value).isprintable()
        assert await facts(host, ModelSwitched, asked.seq) == []


async def test_a_missing_workspace_is_reported_and_leaves_no_task(tmp_path: Path):
    async with opened(tmp_path) as host:
        (tmp_path / "work").rename(tmp_path / "elsewhere")
        with pytest.raises(StorageError, match=r"Cannot open the folder .*/work \(No such"):
            await host.send(OpenTask(task_id="t", text="Make it."))
        assert await host.query(AskTasks()) == ()
        (tmp_path / "elsewhere").rename(tmp_path / "work")
        await host.send(OpenTask(task_id="t", text="Make it."))
        await until_asked(host, AskKind.TOOL)


async def test_a_closed_task_id_cannot_be_opened_again(tmp_path: Path):
    async with opened(tmp_path) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        await until_asked(host, AskKind.TOOL)
        await host.send(OpenTask(task_id="t", text="Make it."))
        await host.send(CloseTask(task_id="t"))
        with anyio.fail_after(60):
            [event async for event in host.follow("t")]
        with pytest.raises(CommandRejected, match=r"was closed\. Reopen it, or use another id"):
            await host.send(OpenTask(task_id="t", text="Make another."))


class JournalOfTest:
    """An engine with one session, whose journal is read only when the test allows it."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._stored = numbered(facts)
        self.is_read, self.may_read = threading.Event(), threading.Event()

    def events(self, task_id: str) -> EventList:
        return EventList(codes=EventList(self._stored).codes, stored=self._read)

    def _read(self, places: Iterable[int]) -> list[Event]:
        self.is_read.set()
        assert self.may_read.wait(30), "the event loop was held"
        return [self._stored[place] for place in places]


async def test_a_host_keeps_working_while_it_reads_the_start_of_a_long_session():
    journal = JournalOfTest([TaskOpened(text="go"), *turns(1, 3_000)])
    answers = Answers(cast(Any, journal), cast(Any, None))
    found: list[object] = []

    async def ask() -> None:
        found.append(await answers.to(AskViewStart(task_id="t")))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.to_thread.run_sync(journal.is_read.wait)
        journal.may_read.set()
    assert found == [view_start(journal.events("t"))]
