"""Runs the command that proves a criterion, so that nothing of it is left when it is over.

The command stands in the repository's intent file. Whoever calls this has seen to it that it may
run: a person who closes an intent saw it, and a task runs it under the leave it has.
"""

import time
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rookery.commands.git_use import GitUse
from rookery.core.limits import KIB
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.commands import Shell
from rookery.errors import ToolError
from rookery.governance.intents.intent import Verify
from rookery.governance.layout import Layout

LARGEST_TAIL = 64 * KIB
LAST_LINES = 20


class CheckResult(Struct, frozen=True, kw_only=True):
    """`exit_code` is None if the command never ran; then `tail` says why."""

    ok: bool
    exit_code: int | None
    seconds: float
    tail: tuple[str, ...] = ()
    timed_out: bool = False


async def check_criterion(
    verify: Verify, layout: Layout, shell: Shell, *, confined: bool = True
) -> CheckResult:
    """For a person who has seen the command. `shell` is that of the layout's workspace."""
    try:
        permit = _permit(verify, layout, confined=confined)
    except ToolError as error:
        return CheckResult(ok=False, exit_code=None, seconds=0.0, tail=(str(error),))
    return await run_check(permit, shell, seconds=verify.timeout_s)


async def run_check(permit: Permit, shell: Shell, *, seconds: float) -> CheckResult:
    """The permitted command is stopped with all it started when its time is over, and when whoever
    waits for it is cancelled."""
    kept = _LastOutput()
    began = time.monotonic()
    try:
        async with shell.run(permit, seconds=seconds, keep=kept) as running:
            end = await running.end()
    except ToolError as error:
        return CheckResult(
            ok=False, exit_code=None, seconds=time.monotonic() - began, tail=(str(error),)
        )
    return CheckResult(
        ok=end.exit_code == 0 and not (end.timed_out or end.flooded or end.stopped),
        exit_code=end.exit_code,
        seconds=time.monotonic() - began,
        tail=kept.last_lines(),
        timed_out=end.timed_out,
    )


def _permit(verify: Verify, layout: Layout, *, confined: bool) -> Permit:
    folder = (layout.root / verify.cwd).resolve()
    if not folder.is_relative_to(layout.root.resolve()):
        raise ToolError(f"{verify.cwd} is outside the folder that the intents govern.")
    return Permit(
        sha256(f"{verify.command}\n{folder}".encode()).hexdigest(),
        command=verify.command,
        cwd=_below(folder, layout.workspace),
        confined=confined,
        git=GitUse.NONE,
    )


def _below(folder: Path, workspace: Path) -> str:
    relative = folder.relative_to(workspace.resolve()).as_posix()
    return "" if relative == "." else relative


class _LastOutput:
    """Takes a command's output, and remembers only the end of it."""

    id = ""

    def __init__(self) -> None:
        self.size = 0
        self._data = b""

    def write(self, data: bytes) -> None:
        self.size += len(data)
        self._data = (self._data + data)[-LARGEST_TAIL:]

    def close(self) -> None:
        pass

    def last_lines(self) -> tuple[str, ...]:
        lines = self._data.decode("utf-8", "replace").splitlines()
        return tuple(lines[-LAST_LINES:])
