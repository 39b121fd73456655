"""Runs a command that checks something, and keeps the end of its output."""

import time

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import Shell
from rookery.errors import ToolError

LARGEST_TAIL = 64 * KIB
LAST_LINES = 20


class CheckResult(Struct, frozen=True, kw_only=True):
    """Result of a check. `exit_code` is None if the command never ran; then `tail` says why."""

    ok: bool
    exit_code: int | None
    seconds: float
    tail: tuple[str, ...] = ()
    timed_out: bool = False


class _LastOutput:
    """Keeps only the end of a command's output."""

    id = ""

    def __init__(self) -> None:
        self.size = 0
        self._data = b""

    def write(self, data: bytes) -> None:
        self.size += len(data)
        self._data = (self._data + data)[-LARGEST_TAIL:]

    def close(self) -> None:
        pass

    def last_lines(self, count: int) -> tuple[str, ...]:
        return tuple(self._data.decode("utf-8", "replace").splitlines()[-count:])


async def run_check(
    permit: Permit, shell: Shell, *, seconds: float, lines: int = LAST_LINES
) -> CheckResult:
    """Run a permitted command; a time-out or cancellation ends all its processes."""
    output = _LastOutput()
    started = time.monotonic()
    try:
        async with shell.run(permit, seconds=seconds, keep=output) as running:
            end = await running.end()
    except ToolError as error:
        return CheckResult(
            ok=False, exit_code=None, seconds=time.monotonic() - started, tail=(str(error),)
        )
    return CheckResult(
        ok=end.exit_code == 0 and not (end.timed_out or end.flooded or end.stopped),
        exit_code=end.exit_code,
        seconds=time.monotonic() - started,
        tail=output.last_lines(lines),
        timed_out=end.timed_out,
    )
