"""Telling hooks of an event, and hearing all their answers."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio
from msgspec import Struct

from rookery.governance.external_hooks.event_input import Situation
from rookery.governance.external_hooks.hook_answers import HookAnswer, HookRun, answer_of, untrusted
from rookery.governance.external_hooks.hook_verdict import Heard
from rookery.governance.external_hooks.known_hooks import KnownHook

Work: TypeAlias = Callable[[], Awaitable[None]]
_Run: TypeAlias = Callable[["Telling"], Coroutine[Any, Any, None]]
_Runs: TypeAlias = dict[tuple[object, ...], HookRun]


class Desk(Protocol):
    """The hooks that there are, and running them."""

    @property
    def hooks(self) -> Sequence[KnownHook]: ...

    async def why_not(self, known: KnownHook) -> str:
        """Why it must not run; empty if it may."""
        ...

    async def run(
        self, known: KnownHook, document: bytes, *, task_id: str, intent_id: str
    ) -> HookRun: ...

    def keep(self, text: str) -> str:
        """Where a text that is too long for the model can be read; empty if nowhere."""
        ...


class Telling(Struct, frozen=True):
    """One hook, and what it is told. `at` is which of the files of a call it is about."""

    known: KnownHook
    document: bytes
    at: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Those with the same are run once."""
        hook = self.known.hook
        return hook.command, hook.args, hook.env, hook.background, self.document


async def hear(
    desk: Desk,
    tellings: Sequence[Telling],
    situation: Situation,
    background: Callable[[Work], None] | None,
) -> list[tuple[Telling, Heard]]:
    """The answers in the order of the configuration, whoever was quicker. Who runs in the
    background has none, but it is told if it does not run."""
    runs: _Runs = {}
    refused: dict[KnownHook, str] = {}
    for known in dict.fromkeys(telling.known for telling in tellings):
        if why := await desk.why_not(known):
            refused[known] = why

    async def run(telling: Telling) -> None:
        runs[telling.key] = await desk.run(
            telling.known,
            telling.document,
            task_id=situation.session_id,
            intent_id=situation.intent_id,
        )

    distinct: dict[tuple[object, ...], Telling] = {}
    for telling in tellings:
        if telling.known not in refused:
            distinct.setdefault(telling.key, telling)
    await _run_all(list(distinct.values()), run, background)
    return [
        (telling, Heard(hook=telling.known.hook, answer=_answer(telling, runs, refused)))
        for telling in tellings
        if telling.known in refused or not telling.known.hook.background
    ]


async def _run_all(
    tellings: Sequence[Telling], run: _Run, background: Callable[[Work], None] | None
) -> None:
    """All at once, but for those who wait for each other, and those nobody waits for."""
    in_turn = [
        each for each in tellings if each.known.hook.sequential and not each.known.hook.background
    ]

    async def run_in_turn() -> None:
        for telling in in_turn:
            await run(telling)

    async with anyio.create_task_group() as group:
        group.start_soon(run_in_turn)
        for telling in tellings:
            if telling.known.hook.background and background:
                background(partial(run, telling))
            elif telling not in in_turn:
                group.start_soon(run, telling)


def _answer(telling: Telling, runs: _Runs, refused: Mapping[KnownHook, str]) -> HookAnswer:
    if telling.known in refused:
        answer = untrusted(telling.known.hook, refused[telling.known])
        background = telling.known.hook.background
        return HookAnswer(warning=answer.warning) if background else answer
    return answer_of(telling.known.hook, runs[telling.key])
