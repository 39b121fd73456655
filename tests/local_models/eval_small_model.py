"""A model that can do next to nothing, and what becomes of tasks that are left to it.

It need not succeed. Whatever it babbles, every run ends by itself, says how, and leaves a whole
journal and no process behind. `make eval` runs this: it wants the machine to itself.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import Struct

from local_models.model_server import SHOWING_TOOLS, WINDOW, missing, serving
from rookery.core.facts import AssistantSpoke, Event
from rookery.core.folds.task_record import fold
from rookery.platform.user_folders import find_places
from rookery.storage.journal import read_events
from rookery.storage.verify import verify
from support.command_server import CommandServer, Ended
from support.terminal_session import Installed

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

TASKS = (
    "Say hello.",
    "Make a file hello.txt with the word hello in it.",
    "What is in this folder? Run ls.",
)
ANSWER = 6
"""Tokens of an answer: enough to be wrong."""
COMPLETED, NOT_COMPLETED = 0, 1
NEAR = 0.2
SETTINGS = f"""\
max_requests = {{requests}}
mistake_limit = 2
nudges = 3
[context]
prompt = "compact"
[models.small]
window = {WINDOW}
max_output = {ANSWER}
"""


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def model_that_sees_tools() -> Iterator[str]:
    with serving(SHOWING_TOOLS) as url:
        yield url


class World:
    """A home and a workspace, and the runs in them, of which nothing may be left running."""

    def __init__(self, folder: Path, command: CommandServer) -> None:
        self._command = command
        self._installed = Installed(folder)
        self._folder = folder
        self._places = find_places(self._installed.environ)

    def run(self, url: str, *words: str, requests: int) -> Ended:
        settings = SETTINGS.format(requests=requests)
        self._places.settings_file.write_text(settings, encoding="utf-8")
        flags = ["-p", "-y", "--provider", "vllm", "-m", "small", "--base-url", url]
        place = ["-w", str(self._installed.workspace)]
        arguments = [*flags, *place, *words]
        return self._command.run(arguments, self._installed.environ, self._folder)

    def doctor(self) -> int:
        return self._installed.run("doctor").returncode

    @property
    def session(self) -> Path:
        [folder] = self._places.tasks.iterdir()
        return folder

    def events(self) -> Sequence[Event]:
        return list(read_events(self.session))


class Exchange(Struct, frozen=True):
    """What one request held, what the server counted of it, and what that taught."""

    size: int
    counted: int
    cached: int
    learnt: float


def exchanges_in(events: Sequence[Event]) -> Iterator[Exchange]:
    for number, event in enumerate(events, start=1):
        if isinstance(event.fact, AssistantSpoke):
            state, usage = fold(events[:number]), event.fact.usage
            yield Exchange(state.sent, usage.tokens_in, usage.cache_reads, state.per_byte)


@pytest.fixture(scope="module")
def command() -> Iterator[CommandServer]:
    with CommandServer() as command:
        yield command


@pytest.fixture
def world(tmp_path: Path, command: CommandServer) -> World:
    return World(tmp_path, command)


@pytest.mark.parametrize("task", TASKS)
def test_a_run_ends_by_itself_and_leaves_nothing_but_a_whole_journal(
    world: World, model: str, task: str
):
    ended = world.run(model, task, requests=4)
    assert ended.code in (COMPLETED, NOT_COMPLETED), ended.err
    assert not ended.left
    assert "Traceback" not in ended.err
    assert ended.code == COMPLETED or "Continue with: rookery" in ended.err
    assert verify(world.session) == []
    assert world.doctor() == 0


def test_what_a_request_will_take_is_foreseen_and_what_was_sent_is_not_read_again(
    world: World, model_that_sees_tools: str
):
    """In a mode with few tools, because most of the time is spent on reading about them."""
    world.run(model_that_sees_tools, "-M", "orchestrator", "Say hello.", requests=2)
    exchanges = list(exchanges_in(world.events()))
    assert len(exchanges) >= 2
    first, *_ = exchanges
    assert first.learnt * first.size == pytest.approx(first.counted, rel=NEAR)
    for before, after in pairwise(exchanges):
        assert before.learnt * after.size == pytest.approx(after.counted, rel=NEAR)
        assert after.cached > before.counted * (1 - NEAR)
