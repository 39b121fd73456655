"""The Python API without async, for scripts and threads.

The host runs in a thread of its own; each call waits for it. Inside a running event loop that would
block the loop, so it is refused there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from rookery.api.hosts import LevelName, OpenHost, open
from rookery.api.sessions import OpenSession, TaskEvent, TurnResult
from rookery.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


class _HostThread:
    """The thread in which a host runs."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self.has_ended = False

    def call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Call a function there and wait for its result."""
        if self.has_ended:
            raise UsageError("The host is closed. Open a new one.")
        return self._portal.call(function, *args)


class BlockingSession:
    """`OpenSession` without async."""

    def __init__(self, thread: _HostThread, session: OpenSession) -> None:
        self.id = session.id
        self._thread = thread
        self._session = session

    def events(self) -> Iterator[TaskEvent]:
        while event := self._thread.call(self._session.next_event):
            yield event

    def finish(self, answer: Callable[[TaskEvent], bool | str] | None = None) -> TurnResult:
        return self._thread.call(self._session.finish, _in_thread(answer))

    def approve(self, question: TaskEvent, *, always: bool = False) -> None:
        self._thread.call(lambda: self._session.approve(question, always=always))

    def reject(self, question: TaskEvent, reason: str = "") -> None:
        self._thread.call(self._session.reject, question, reason)

    def answer(self, question: TaskEvent, text: str) -> None:
        self._thread.call(self._session.answer, question, text)

    def say(self, text: str) -> None:
        self._thread.call(self._session.say, text)

    def proceed(self) -> None:
        self._thread.call(self._session.proceed)

    def cancel(self) -> None:
        self._thread.call(self._session.cancel)

    def close(self) -> None:
        self._thread.call(self._session.close)


class BlockingHost:
    """`OpenHost` without async."""

    def __init__(self, thread: _HostThread, host: OpenHost) -> None:
        self.notes = host.notes
        self._thread = thread
        self._host = host

    def start(
        self, prompt: str, *, mode: str = "", level: LevelName | None = None
    ) -> BlockingSession:
        session = self._thread.call(lambda: self._host.start(prompt, mode=mode, level=level))
        return BlockingSession(self._thread, session)

    def resume(self, session_id: str) -> BlockingSession:
        return BlockingSession(self._thread, self._thread.call(self._host.resume, session_id))

    def run(
        self,
        prompt: str,
        *,
        mode: str = "",
        answer: Callable[[TaskEvent], bool | str] | None = None,
    ) -> TurnResult:
        return self.start(prompt, mode=mode).finish(answer)


def _blocking(
    make: Callable[P, AbstractAsyncContextManager[OpenHost]],
) -> Callable[P, AbstractContextManager[BlockingHost]]:
    @contextmanager
    @wraps(make)
    def opened(*args: P.args, **options: P.kwargs) -> Iterator[BlockingHost]:
        _check_no_loop()
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(make(*args, **options)) as host,
        ):
            thread = _HostThread(portal)
            try:
                yield BlockingHost(thread, host)
            finally:
                thread.has_ended = True

    return opened


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "rookery.open_sync was called inside a running event loop, which it would block. "
        "Use instead: async with rookery.open(...) as host."
    )


def _in_thread(answer: Callable[[TaskEvent], bool | str] | None) -> Any:
    """The function as an async one: it may block, as a prompt at a terminal does."""
    if answer is None:
        return None
    from anyio.to_thread import run_sync

    async def ask(question: TaskEvent) -> bool | str:
        return await run_sync(answer, question, abandon_on_cancel=True)

    return ask


open_sync = _blocking(open)
"""`open` without async. It takes the same arguments."""
