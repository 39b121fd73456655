"""Measure the full screen in a real pseudo-terminal: `python benchmarks/full_screen.py`.

A child process shows a task of a scripted host: either a stream, while keys are pressed, or a long
session that is opened. Times are measured at the other side of the terminal; only processor time is
measured by the child itself.
"""

import fcntl
import json
import os
import pty
import resource
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from support.scripted_host import ScriptedHost

CHUNKS = 20_000
CHUNKS_PER_SECOND = 2_000
MESSAGES = 10_000
SIZES = ((80, 24), (160, 48))
KEYS = "αβγδεζηθκλμνξπρστφχψω"
"""Characters that do not occur in the stream."""
LAST = "the-very-last-words"
PATIENCE = 120.0


# the process in the terminal


def show_stream(report: Path) -> None:
    import anyio

    from rookery.core.facts import RequestStarted, TextStreamed
    from support.scripted_host import ScriptedHost

    host = ScriptedHost()

    async def send_events() -> None:
        await anyio.sleep(1.0)
        host.tell(RequestStarted(request_id="r", model="m"))
        before = _processor_seconds()
        began, sent = time.monotonic(), 0
        while sent < CHUNKS:
            due = min(CHUNKS, int((time.monotonic() - began) * CHUNKS_PER_SECOND))
            for number in range(sent, due):
                end = "\n\n" if number % 60 == 59 else " "
                host.tell(TextStreamed(request_id="r", text=f"word{number % 10}{end}"))
            sent = due
            await anyio.sleep(0.005)
        _write(report, cpu=_processor_seconds() - before)
        host.tell(TextStreamed(request_id="r", text=f"\n\n{LAST}\n"))

    _run(host, send_events)


def show_past(report: Path) -> None:
    from support.scripted_host import ScriptedHost
    from support.tui_long_session import long_past

    host = ScriptedHost()
    host.tell(*long_past(MESSAGES, LAST))

    async def send_events() -> None:
        """Only record the time; all events were sent before."""
        _write(report, ready=time.monotonic())

    _run(host, send_events)


def _run(host: "ScriptedHost", send_events: Callable[[], Awaitable[None]]) -> None:
    import anyio

    from rookery.core.commands import OpenTask
    from rookery.tui.app import FullScreen, StartOptions
    from rookery.tui.terminal_driver import ScreenDriver

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(send_events)
            await anyio.lowlevel.checkpoint()
            opening = StartOptions(first=OpenTask(task_id="t1", text="Stream"))
            app = FullScreen(host, opening, driver=ScreenDriver)
            await app.run_async()
            group.cancel_scope.cancel()
        if app.crash:
            raise app.crash

    anyio.run(main)


def _write(report: Path, **figures: float) -> None:
    report.write_text(json.dumps(figures))


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# the other side of the terminal


class Terminal:
    def __init__(self, what: str, size: tuple[int, int], report: Path) -> None:
        self._master, slave = pty.openpty()
        columns, rows = size
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environ = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environ.pop("NO_COLOR", None)
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, __file__, what, str(report)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
        )
        os.close(slave)
        self.read = bytearray()

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str, since: int = 0, seconds: float = PATIENCE) -> float | None:
        """The time when the text appeared; None if it did not in time."""
        until = time.monotonic() + seconds
        while self.read.find(text.encode(), since) < 0:
            if not select.select([self._master], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            self.read += os.read(self._master, 1 << 16)
        return time.monotonic()

    def close(self) -> None:
        self.press("\x03")
        time.sleep(0.1)
        self.press("\x03")
        try:
            while os.read(self._master, 1 << 16):
                pass
        except OSError:  # Linux's EIO once the other side is closed
            pass
        self._process.wait(PATIENCE)
        os.close(self._master)


def measure_stream(size: tuple[int, int]) -> Sequence[str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        terminal = Terminal("stream", size, report)
        terminal.wait_for("word1")
        before, delays, at = len(terminal.read), list[float](), 0
        while not report.exists():
            key = KEYS[at % len(KEYS)]
            at += 1
            here, pressed = len(terminal.read), time.monotonic()
            terminal.press(key)
            if seen := terminal.wait_for(key, here, 2.0):
                delays.append(seen - pressed)
            terminal.press("\x7f")
            terminal.wait_for("never", len(terminal.read), 0.07)
        terminal.wait_for(LAST)
        written = len(terminal.read) - before
        terminal.close()
        cpu = json.loads(report.read_text())["cpu"]
    middle, late = quantiles(delays, n=100)[49], quantiles(delays, n=100)[94]
    return [
        f"{size[0]}x{size[1]}",
        f"{cpu / CHUNKS * 1_000 * 1_000:.0f} ms",
        f"{written / CHUNKS:.0f}",
        f"{middle * 1_000:.0f} ms",
        f"{late * 1_000:.0f} ms",
        str(len(delays)),
    ]


def measure_past(size: tuple[int, int]) -> Sequence[str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        terminal = Terminal("past", size, report)
        seen = terminal.wait_for(LAST)
        assert seen is not None
        ready = json.loads(report.read_text())["ready"]
        here, pressed = len(terminal.read), time.monotonic()
        terminal.press("ж")
        typed = terminal.wait_for("ж", here, 10.0) or 0.0
        terminal.close()
    return [
        f"{size[0]}x{size[1]}",
        f"{(seen - ready) * 1_000:.0f} ms",
        f"{(seen - terminal.began) * 1_000:.0f} ms",
        f"{(typed - pressed) * 1_000:.0f} ms",
    ]


STREAM = ("screen", "CPU per 1000 chunks", "bytes per chunk", "key to paint p50", "p95", "keys")
PAST = ("screen", "first paint", "… since the process began", "first key to paint")


def main() -> None:
    from run import machine, table

    print(machine())
    print(f"\n{CHUNKS} chunks of a stream, {CHUNKS_PER_SECOND} a second, while keys are pressed:\n")
    print(table([STREAM, *map(measure_stream, SIZES)]))
    print(f"\nA task with {MESSAGES} rows is opened:\n")
    print(table([PAST, *map(measure_past, SIZES)]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stream", report]:
            show_stream(Path(report))
        case ["past", report]:
            show_past(Path(report))
        case _:
            main()
