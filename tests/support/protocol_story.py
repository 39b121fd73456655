"""A scenario that must look the same over every wire.

A task is opened, speaks, asks, is cancelled, resumed and rewound, gets a second client, and
completes.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import anyio

from rookery.core.asks import AskKind
from rookery.core.commands import Answer, Cancel, OpenTask, ReopenTask, Rewind, Speak
from rookery.core.facts import Asked, AssistantSpoke, Event, TextStreamed, ToolFinished
from rookery.core.queries import (
    AskAbout,
    AskCommands,
    AskDifferences,
    AskModes,
    AskPaths,
    AskRehearsal,
    AskTasks,
)
from rookery.errors import CommandRejected, StorageError
from rookery.prompting.system_prompt import TIME
from rookery.protocol.codec import Host, answer_to_json, event_to_json

TASK = "3f0a2c44-5b1d-4c53-9f0e-0c8f2b7a9d10"
SCRIPT = """\
- say: I will write it.
  calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- say: one two three four five six seven eight nine ten
  pause: 0.03
  calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""


class Story:
    """The events that a client received, in order."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.events: list[Event] = []
        self._grown = anyio.Event()
        self._looked_at = 0

    async def follow(self) -> None:
        async for event in self._host.follow(TASK):
            self.events.append(event)
            self._grown.set()
            self._grown = anyio.Event()
        self.events.append(Event(0, 0, 0, self.events[-1].fact))
        self._grown.set()

    async def until(self, fits: Callable[[Event], bool]) -> Event:
        """The first matching event after the last one that was waited for."""
        while True:
            while self._looked_at < len(self.events):
                self._looked_at += 1
                if fits(event := self.events[self._looked_at - 1]):
                    return event
            await self._grown.wait()

    async def asked(self, ask: AskKind) -> Asked:
        event = await self.until(lambda event: isinstance(event.fact, Asked))
        assert isinstance(event.fact, Asked)
        assert event.fact.ask is ask
        return event.fact

    async def answer(self, ask: AskKind) -> None:
        asked = await self.asked(ask)
        said = partial(Answer, task_id=TASK, ask_id=asked.ask_id)
        await self._host.send(said(reply="yes", digest=asked.digest))


async def reported(host: Host) -> dict[str, Any]:
    """Run the scenario; return what clients received, without what differs in every run."""
    reported: dict[str, Any] = {"refusals": await _refusals(host)}
    await host.send(OpenTask(task_id=TASK, text="Do it"))
    story = Story(host)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(story.follow)
            await story.answer(AskKind.TOOL)
            written = await story.until(lambda event: isinstance(event.fact, ToolFinished))
            await story.until(lambda event: isinstance(event.fact, TextStreamed))
            await host.send(Speak(task_id=TASK, message_id="m", text="Be quick."))
            await host.send(Cancel(task_id=TASK))
            await story.answer(AskKind.RESUME_TASK)
            await story.asked(AskKind.COMPLETION_RESULT)
            reported["answers"] = await _answers(host, written.seq)
            await host.send(Rewind(task_id=TASK, to=written.seq))
            await story.answer(AskKind.RESUME_TASK)
            await story.answer(AskKind.COMPLETION_RESULT)
            await story.until(lambda event: event.seq == 0)
    lasting = [event for event in story.events[:-1] if not event.sub]
    assert [event.seq for event in lasting] == list(range(1, len(lasting) + 1))
    assert any(event.sub for event in story.events)
    reported["facts"] = [_plain(event) for event in lasting]
    return _named_alike(reported)


async def _refusals(host: Host) -> list[str]:
    refusals = []
    for attempt in (
        partial(host.send, Cancel(task_id=TASK)),
        partial(host.send, OpenTask(task_id=TASK, text=" ")),
        partial(host.send, ReopenTask(task_id=TASK)),
        partial(_first, host),
        partial(host.query, AskDifferences(task_id=TASK)),
    ):
        try:
            await attempt()
        except (CommandRejected, StorageError) as refusal:
            refusals.append(f"{type(refusal).__name__}: {refusal}")
    assert len(refusals) == 5
    return refusals


async def _first(host: Host) -> None:
    async for _ in host.follow(TASK):
        return


async def _answers(host: Host, to: int) -> list[Any]:
    answers = []
    for query in (
        AskAbout(),
        AskModes(),
        AskCommands(),
        AskTasks(),
        AskPaths(letters="made"),
        AskDifferences(task_id=TASK),
        AskRehearsal(task_id=TASK, to=1),
    ):
        answers.append(json.loads(answer_to_json(await host.query(query))))
    return answers


def _plain(event: Event) -> Any:
    fields = json.loads(event_to_json(event))
    if isinstance(event.fact, AssistantSpoke) and event.fact.interrupted:
        fields["blocks"] = "as far as it came"
    return fields


_TIMES = {"size", "ts", "created", "updated", "seconds", "duration", TIME}
_PASSING_NAMES = re.compile(r"[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _named_alike(reported: Any) -> Any:
    """Replace ids by numbers in order of appearance, and drop times and lengths that depend on
    paths."""
    names: dict[str, str] = {}
    numbers = count(1)

    def name(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"<{next(numbers)}>")

    def plain(value: Any) -> Any:
        match value:
            case dict():
                return {k: 0 if k in _TIMES else plain(value[k]) for k in value}
            case list():
                return [plain(each) for each in value]
            case str():
                return _PASSING_NAMES.sub(name, re.sub(r"/\S*/(?=work|script)", "…/", value))
            case _:
                return value

    return plain(reported)
