"""Virtual time for tests: waiting half a second takes no real time.

The event loop's clock jumps to the next timer as soon as nothing is ready. Real time passes only
while something outside the loop runs, such as a child process or a thread.
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


class VirtualTimeSelector(selectors.DefaultSelector):
    """Keeps the virtual time, because it does the waiting."""

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
        if len(self.get_map()) > 1:  # the first is the loop's own wake-up pipe
            return True
        if anyio.to_thread.current_default_thread_limiter().borrowed_tokens:
            return True
        return any("waitpid" in thread.name for thread in threading.enumerate())


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._own_time = VirtualTimeSelector()
        super().__init__(self._own_time)

    def time(self) -> float:
        return self._own_time.now


VIRTUAL_TIME: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": VirtualTimeLoop})
"""An `anyio_backend` with virtual time."""


def _now() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return _clock()


@contextmanager
def screens_in_virtual_time() -> Iterator[None]:
    """Make Textual use the time of the running loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", _now)
        patch.setattr(textual._time, "get_time", _now)
        patch.setattr(textual.widget, "monotonic", _now)
        patch.setattr(textual._wait, "monotonic", _now)
        patch.setattr(textual._wait, "process_time", lambda: 0.0)
        patch.setattr(Pilot, "_wait_for_screen", _wait_for_work)
        patch.setattr(Compositor, "render_update", _draw_full_only)
        patch.setattr(Stylesheet, "_parse_rules", _parse_once)
        yield


async def _wait_for_work(pilot: Pilot[Any]) -> bool:
    """Replaces a wait of Textual: virtual time passes only after all work is done."""
    await asyncio.sleep(A_MOMENT)
    return True


_draw = Compositor.render_update


def _draw_full_only(compositor: Compositor, full: bool = False, **how: Any) -> Any:
    """Skip partial updates, which are invisible without a terminal; tests request full ones."""
    if full:
        return _draw(compositor, full, **how)
    compositor._dirty_regions.clear()
    return None


_parse = Stylesheet._parse_rules
_parsed: dict[Hashable, list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, css: str, **where: Any) -> list[RuleSet]:
    """Cache parsed styles, which every app would parse again."""
    key = (css, frozenset(sheet._variables.items()), *where.values())
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, **where)
    return _parsed[key]
