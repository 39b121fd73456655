"""Time that passes only when nobody has anything left to do: a test that waits half a second waits
for what is done in it, on any machine.

An event loop of its own time jumps to the next timer as soon as nothing is ready, however long
that took. Only while something outside the loop is at work, which is a child process or a thread,
does time pass as it does for everybody.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio.to_thread
import pytest
import textual._time
import textual._wait
import textual.widget
from textual._compositor import Compositor
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

BEGINNING = 1_000.0
A_MOMENT = 0.001
_clock = time.monotonic


class OwnTimeSelector(selectors.DefaultSelector):
    """Knows what time it is, because it is what waits."""

    now = BEGINNING

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is not None and not self._is_awaiting_others():
            self.now += timeout
            return ready
        began = _clock()
        ready = super().select(timeout)
        self.now += _clock() - began
        return ready

    def _is_awaiting_others(self) -> bool:
        if len(self.get_map()) > 1:  # the first is how threads wake the loop
            return True
        if anyio.to_thread.current_default_thread_limiter().borrowed_tokens:
            return True
        return any("waitpid" in thread.name for thread in threading.enumerate())


class OwnTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._own_time = OwnTimeSelector()
        super().__init__(self._own_time)

    def time(self) -> float:
        return self._own_time.now


OWN_TIME: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": OwnTimeLoop})
"""An `anyio_backend`."""


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return _clock()


@contextmanager
def screens_in_own_time() -> Iterator[None]:
    """What a full screen takes for the time is that of the loop which it runs in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", _now)
        patch.setattr(textual._time, "get_time", _now)
        patch.setattr(textual.widget, "monotonic", _now)
        patch.setattr(textual._wait, "monotonic", _now)
        patch.setattr(textual._wait, "process_time", lambda: 0.0)
        patch.setattr(Pilot, "_wait_for_screen", _let_all_be_done)
        patch.setattr(Compositor, "render_update", _draw_if_looked_at)
        patch.setattr(Stylesheet, "_parse_rules", _parse_once)
        yield


async def _let_all_be_done(pilot: Pilot[Any]) -> bool:
    """Time passes only after it."""
    await asyncio.sleep(A_MOMENT)
    return True


_draw = Compositor.render_update


def _draw_if_looked_at(compositor: Compositor, full: bool = False, **how: Any) -> Any:
    """Nobody sees what goes to no terminal; whoever looks asks for all of it."""
    if full:
        return _draw(compositor, full, **how)
    compositor._dirty_regions.clear()
    return None


_parse = Stylesheet._parse_rules
_parsed: dict[Hashable, list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, css: str, **where: Any) -> list[RuleSet]:
    """The same styles are parsed for every app anew otherwise."""
    key = (css, frozenset(sheet._variables.items()), *where.values())
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, **where)
    return _parsed[key]
