"""Run whole tasks: a scripted model, a real workspace, and scripted answers of a user."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.asks import CATEGORY, AskCategory
from rookery.core.blocks import Image, ToolCall
from rookery.core.commands import (
    Answer,
    Cancel,
    CloseTask,
    Command,
    OpenTask,
    ReopenTask,
    RestoreFiles,
    Speak,
)
from rookery.core.facts import Asked, ChildBegan, Event, Fact, FellBack, Gathered
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import Limits
from rookery.core.modes import BUILT_IN, Level
from rookery.core.next_step import TurnRules
from rookery.engine.context import Equipment
from rookery.engine.engine import Engine
from rookery.engine.event_log import EventLog
from rookery.engine.model_turn import Pace
from rookery.engine.ports.hooks import Hook, LateHooks, SessionHook
from rookery.engine.ports.tool import ToolContext, not_judged
from rookery.engine.ports.workspace import Checkpoint, Checkpoints, Restored, UnlistedCommands
from rookery.engine.task import Task
from rookery.engine.task_deps import Act, Family, TaskDeps
from rookery.permissions.approval import AllowRules, ApprovalGate
from rookery.permissions.protected_changes import protected_paths
from rookery.platform.user_folders import find_places
from rookery.providers.scripted import Line
from rookery.storage.sessions import TaskArtifacts, TaskStore
from rookery.tools.conversation import NewTask
from rookery.tools.registry import all_tools, spec_of
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.terminal import Terminal
from rookery.workspace.tree import WorkspaceFinder
from support.scripted_provider import ScriptedProvider

TASK = "t1"
TOOLS = all_tools() | {"new_task": NewTask(lambda: BUILT_IN)}
SPECS = [spec_of(tool) for tool in TOOLS.values()]


class NoCheckpoints:
    async def save(self, paths: object) -> Checkpoint:
        return Checkpoint()

    async def save_after(self, before: str, paths: object) -> tuple[Checkpoint, tuple[()]]:
        return Checkpoint(), ()

    async def effects(self, before: str, after: str) -> tuple[()]:
        return ()

    async def changed_files(self, before: str, after: str) -> bool:
        return False

    async def tidy(self, keep: object) -> str:
        return ""

    async def restore(self, steps: object, **_: object) -> Restored:
        return Restored(problem="There are no checkpoints here.")


class StageClock:
    """Advances with every look and wait; waits are recorded and return at once."""

    def __init__(self) -> None:
        self._now = 1_000
        self.waits: list[float] = []

    def now(self) -> int:
        self._now += 1
        return self._now - 1

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        self.waits.append(seconds)
        self._now += int(seconds * 1000)
        await anyio.lowlevel.checkpoint()


class Stage:
    """Runs tasks through the real engine, gate, tools, files and journal in `folder`."""

    def __init__(
        self,
        folder: Path,
        *scenes: Sequence[Line],
        automatic: bool = False,
        limits: Limits | None = None,
        hooks: Sequence[Hook] = (),
        session_hooks: Sequence[SessionHook] = (),
        checkpoints: bool = False,
        spread: Callable[[float], float] = lambda most: most,
        turn: TurnRules | None = None,
        pace: Pace | None = None,
        fallbacks: Sequence[ScriptedProvider | str] = (),
    ) -> None:
        """A fallback is another model, or the reason why it cannot be opened."""
        self.root = folder / "work"
        self.root.mkdir(exist_ok=True)
        self.model = ScriptedProvider(scenes)
        self.shown: tuple[Image, ...] = ()
        """Images that are sent with each answer."""
        self.clock = StageClock()
        self.store = TaskStore(find_places({"ROOKERY_HOME": str(folder / "home")}))
        self.events: list[Event] = []
        self._ids = count(1)
        self._spread = spread
        self._limits = replace(limits or Limits(), fallbacks=len(fallbacks))
        self._fallbacks = fallbacks
        self._turn = turn or TurnRules()
        self._pace = pace or Pace()
        self._files = WorkspaceFiles(self.root, self._limits, home=folder)
        self.rules = AllowRules(
            folder / "allowed.json", self.root, place=self._files.place, now=self.clock.now
        )
        level = Level.AUTO if automatic else Level.ASK
        self._hooks = [ApprovalGate(self.rules, level=lambda: level), *hooks]
        self._session_hooks = session_hooks
        self.checkpoints: Checkpoints = NoCheckpoints()
        if checkpoints:
            self.checkpoints = ShadowCheckpoints(self.root, folder / "shadow", self._limits)

    def make_task(self, task_id: str, log: EventLog, family: Family) -> Task:
        async def equip(state: TaskState) -> Equipment:
            models = {"": self.model} | {
                each.model.id: each for each in self._fallbacks if not isinstance(each, str)
            }
            return Equipment(
                models[state.fallback_model[1]], f"You are in {state.mode} mode.", SPECS
            )

        def fall_back(place: int) -> FellBack:
            to = self._fallbacks[place - 1]
            if isinstance(to, str):
                return FellBack(place=place, provider="p", model=f"m{place}", problem=to)
            return FellBack(place=place, provider="p", model=to.model.id)

        async def details(log: EventLog) -> Mapping[str, str]:
            return {}

        async def gather(text: str, ctx: ToolContext, act: Act) -> Gathered:
            if "@/broken" in text:
                raise OSError("It is broken.")
            return Gathered(text=f"looked up: {text}")

        deps = TaskDeps(
            tools=lambda: TOOLS,
            equip=equip,
            fall_back=fall_back,
            sees_images=lambda state: self.model.model.images,
            details=details,
            gather=gather,
            hooks=self._hooks,
            find_hooks=lambda: LateHooks(session=self._session_hooks),
            rules=self.rules,
            checkpoints=lambda: self.checkpoints,
            shielded=protected_paths,
            judge=not_judged,
            command_list=UnlistedCommands,
            settle=anyio.lowlevel.checkpoint,
            files=self._files,
            finder=WorkspaceFinder(self.root, self._files, self._limits),
            shell=Terminal(self.root, self._limits),
            artifacts=TaskArtifacts(self.store.folder(task_id)),
            clock=self.clock,
            new_id=lambda: f"id{next(self._ids)}",
            jitter=self._spread,
            limits=self._limits,
            turn=self._turn,
            pace=self._pace,
        )
        return Task(task_id, log, deps, family)

    async def play(self, *answers: str, reopen: bool = False, within: float = 60) -> None:
        """Run the task, answering its questions in order.

        An answer is `yes`, `always`, `no why`, `message words`, `cancel`, `close` (to the task that
        asks), `restore event` or `crash`, which ends the process. `say words; yes` sends a message
        first. `offer yes` answers the next question that does not block; without such an entry,
        those are ignored.
        """
        book = list(answers)
        with anyio.fail_after(within):
            async with anyio.create_task_group() as process:
                engine = self.engine(process)
                first: Command = (
                    ReopenTask(task_id=TASK) if reopen else OpenTask(task_id=TASK, text="Do it")
                )
                await engine.send(first)
                after = len(list(self.store.read(TASK))) - 1 if reopen else 0
                await self._attend(engine, process, book, TASK, after)
                process.cancel_scope.cancel()
        assert not book, f"No question came for {book}."

    async def _attend(
        self,
        engine: Engine,
        process: anyio.abc.TaskGroup,
        book: list[str],
        task_id: str,
        after: int,
    ) -> None:
        """Follow a task and its children until it ends or the process does."""
        async for event in engine.follow(task_id, after):
            self.events.append(event)
            fact = event.fact
            if isinstance(fact, ChildBegan):
                child = (fact.task_id, fact.after)
                process.start_soon(self._attend, engine, process, book, *child)
            if _is_offer(fact) and not (book and book[0].startswith("offer ")):
                continue
            if isinstance(fact, Asked) and book:
                if book[0] == "crash":
                    book.pop(0)
                    process.cancel_scope.cancel()
                    return
                await self._act(engine, task_id, fact, book.pop(0))
            elif isinstance(fact, Asked):
                raise AssertionError(f"Unexpected question: {fact}.")

    def engine(self, process: anyio.abc.TaskGroup) -> Engine:
        return Engine(
            process,
            self.store,
            self.make_task,
            now=self.clock.now,
            workspace=str(self.root),
        )

    async def _act(self, engine: Engine, task_id: str, asked: Asked, entry: str) -> None:
        *spoken, rest = entry.removeprefix("offer ").split("; ")
        for said in spoken:
            words = said.removeprefix("say ")
            await engine.send(Speak(task_id=task_id, message_id=words, text=words))
        word, _, text = rest.partition(" ")
        match word:
            case "cancel":
                await engine.send(Cancel(task_id=TASK))
            case "close":
                await engine.send(CloseTask(task_id=task_id))
            case "restore":
                await engine.send(RestoreFiles(task_id=TASK, to=int(text)))
            case "yes" | "no" | "message" | "always":
                await engine.send(
                    Answer(
                        task_id=task_id,
                        ask_id=asked.ask_id,
                        reply="yes" if word == "always" else word,  # type: ignore[arg-type]
                        text=text,
                        images=self.shown,
                        digest=asked.digest,
                        always=word == "always",
                    )
                )
            case _:
                raise AssertionError(f"{word!r} is no answer.")

    @property
    def facts(self) -> list[Fact]:
        return [event.fact for event in self.events]

    @property
    def asks(self) -> list[str]:
        return [fact.ask for fact in self.facts if isinstance(fact, Asked) and not _is_offer(fact)]

    def kinds(self) -> list[str]:
        return [type(fact).__name__ for fact in self.facts if fact.lasting]


def _is_offer(fact: Fact) -> bool:
    return isinstance(fact, Asked) and CATEGORY[fact.ask] is AskCategory.NON_BLOCKING


_calls = count(1)


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{next(_calls)}", name=tool, arguments=arguments)


def write(path: str, content: str) -> ToolCall:
    return call("write_to_file", path=path, content=content)


def run(command: str) -> ToolCall:
    return call("execute_command", command=command, cwd=None, timeout=None)


def finish(result: str = "Done") -> ToolCall:
    return call("attempt_completion", result=result)
