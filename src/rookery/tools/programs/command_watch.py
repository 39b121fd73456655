"""Watches a command, in its call or in the background, and describes it to the model."""

import math
from contextlib import AsyncExitStack, suppress
from functools import partial

import anyio

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    CommandDetached,
    CommandEnded,
    CommandQuiet,
    Noted,
    OutputStreamed,
)
from rookery.core.limits import KIB, MIB, Limits
from rookery.core.replies import BLOCKED, OWN_LOCALHOST
from rookery.core.text.characters import marked
from rookery.core.text.output_preview import Cleaner, Preview
from rookery.core.text.terminal_text import gap
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.tool import Offer, ToolContext
from rookery.engine.ports.workspace import Artifact, CommandEnd, CommandState, RunningCommand
from rookery.errors import StorageError
from rookery.tools.commands import first_line

OFFER_SECONDS = 2.0
"""Seconds after which the user may send a command to the background, or end it."""
OFFER_SECONDS_WITH_OUTPUT = 0.5
"""The same for a command that has written something."""
UNKNOWN_END = CommandEnd(exit_code=-1)
SHOWN_WHOLE = 256 * KIB
"""Bytes of output that clients see live; of the rest they see samples."""
SAMPLE = 4 * KIB
SAMPLE_SECONDS = 0.2
_CORE_DUMPS = {"SIGQUIT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"}
_SIGNS_OF_A_SANDBOX = ("Read-only file system", "Permission denied", "Network is unreachable")
_BLOCKED = (
    "It may have been blocked: it ran {where}. Do not look for a way around that; do it inside "
    "the workspace, or ask the user to."
)


class CommandWatch:
    """One command. `preview` is its output so far as the model will see it.

    Nothing is polled: the watch sleeps until there is output, an answer, or a deadline.
    """

    def __init__(
        self,
        running: RunningCommand,
        permit: Permit,
        artifact: Artifact,
        ctx: ToolContext,
        *,
        patience: float,
    ) -> None:
        self.preview = _new_preview(ctx)
        self._running = running
        self._permit = permit
        self._artifact = artifact
        self._ctx = ctx
        self._cleaner = Cleaner()
        self._live = _LiveOutput(ctx)
        self._offer: Offer | None = None
        self._listed = False
        self._blocked_before: tuple[str, ...] = ()
        self._began = self._last_output = anyio.current_time()
        self._leave_at = self._began + patience if ctx.background else math.inf
        self._offer_at = self._began + OFFER_SECONDS
        self._quiet_at = self._began + ctx.limits.quiet_seconds
        self._sleep = anyio.CancelScope()

    @property
    def answer(self) -> Answered | None:
        """The user's answer to the offer."""
        return self._offer.answer if self._offer else None

    @property
    def aborted(self) -> bool:
        return self.answer is not None and self.answer.reply == "no"

    @property
    def seconds(self) -> float:
        """How long the command has run."""
        return anyio.current_time() - self._began

    async def wait(self) -> bool:
        """Wait until the command has ended; False if it continues in the background."""
        try:
            while not self.answer and anyio.current_time() < self._leave_at:
                moment = min(self._offer_at, self._quiet_at, self._leave_at)
                with anyio.CancelScope(deadline=moment) as self._sleep:
                    await self._listen()
                    return True
                self._do_what_is_due()
            return False
        finally:
            if self._offer:
                self._offer.withdraw()

    async def end(self) -> CommandEnd:
        """Wait for the end of the command and record how it ended."""
        await self._listen()
        end = await self._running.end()
        self._live.show_rest()
        self.preview.add(self._cleaner.finish())
        return end

    def send_to_background(self, context: AsyncExitStack) -> None:
        """From now on the task holds the command's context."""
        assert self._ctx.background
        self._ctx.append(
            CommandDetached(
                call_id=self._ctx.call_id,
                command=self._permit.command,
                artifact=self._artifact.id,
                pid=self._running.pid,
            )
        )
        self._list("background")
        with suppress(StorageError):  # it is reported when the command ends
            self._artifact.write(b"")  # so that it can be read, though there be nothing in it
        self._live.show_rest()
        self.preview.add(self._cleaner.finish())
        self._blocked_before = self._running.blocked
        attend = partial(self._attend, context.pop_all())
        self._ctx.background.start(self._ctx.call_id, self._running, attend)

    def leave_list(self) -> None:
        if self._running.kept:
            self._list("kept")
        elif self._listed:
            self._ctx.command_list().leave(self._running)

    async def _attend(self, context: AsyncExitStack) -> None:
        news = _new_preview(self._ctx)
        async with context:
            async for piece in self._running.output():
                news.add(self._cleaner.add(piece))
            try:
                end = await self._running.end()
                text = status(end, self._ctx.limits)
            except StorageError as error:
                end, text = UNKNOWN_END, str(error)
        news.add(self._cleaner.finish())
        text += self._blocked_note() + self.unreached_note(end, news.text())
        self._ctx.append(
            CommandEnded(
                call_id=self._ctx.call_id,
                text=marked(ended_in_background(self._permit.command, text, news, self._artifact)),
                exit_code=end.exit_code,
            )
        )

    def _blocked_note(self) -> str:
        """Hosts it was blocked from since it was sent to the background."""
        new = [each for each in self._running.blocked if each not in self._blocked_before]
        if not new:
            return ""
        self._ctx.append(Noted(text=BLOCKED.format(", ".join(new))))
        return f" {BLOCKED.format(', '.join(new))}"

    def unreached_note(self, end: CommandEnd, said: str) -> str:
        """Notes to the user and the model about local servers that the command could not reach."""
        if not end.exit_code:
            return ""
        ports = self._running.unreached(self._permit.command, said)
        text = [OWN_LOCALHOST.format(where=f"localhost:{port}") for port in ports]
        for each in text:
            self._ctx.append(Noted(text=each))
        return "".join(f"\n{each}" for each in text)

    async def _listen(self) -> None:
        async for piece in self._running.output():
            self._live.show(piece)
            self.preview.add(self._cleaner.add(piece))
            self._last_output = anyio.current_time()
            self._bring_forward(self._began + OFFER_SECONDS_WITH_OUTPUT)

    def _bring_forward(self, moment: float) -> None:
        """Make the offer at that moment, if it was due later."""
        if moment < self._offer_at < math.inf:
            self._offer_at = moment
            self._sleep.deadline = min(moment, self._sleep.deadline)

    def _do_what_is_due(self) -> None:
        now = anyio.current_time()
        if now >= self._offer_at:
            self._offer_at = math.inf
            self._list("running")
            if self._ctx.offer and self._ctx.background:
                # the sleep is another one by the time it is cancelled
                self._offer = self._ctx.offer(
                    AskKind.COMMAND_OUTPUT, "", lambda: self._sleep.cancel()
                )
        if now >= self._quiet_at:
            self._notice_silence(now)

    def _notice_silence(self, now: float) -> None:
        limit = self._ctx.limits.quiet_seconds
        silence = now - self._last_output
        if silence >= limit:
            self._ctx.append(CommandQuiet(call_id=self._ctx.call_id, seconds=silence))
            limit += silence
        self._quiet_at = self._last_output + limit

    def _list(self, state: CommandState) -> None:
        self._listed = True
        self._ctx.command_list().enter(
            self._running, call_id=self._ctx.call_id, permit=self._permit, state=state
        )


class _LiveOutput:
    """Live output for clients: all of it at first, then samples.

    Streamed events stay in memory, so a flood must not be streamed whole.
    """

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._shown = 0
        self._next_sample = 0.0
        self._held = ""
        self._skipped = 0
        self._lines = 0
        """Number of skipped line breaks."""
        self._at_line_end = True

    def show(self, piece: str) -> None:
        if self._shown < SHOWN_WHOLE:
            self._append(piece)
            return
        self._skip(self._held)
        self._held = piece
        if anyio.current_time() >= self._next_sample:
            self.show_rest()
            self._next_sample = anyio.current_time() + SAMPLE_SECONDS

    def show_rest(self) -> None:
        if not self._held:
            return
        sample = self._held[-SAMPLE:]
        if len(sample) < len(self._held) or self._skipped:
            sample = sample.partition("\n")[2] or sample  # whole lines, if there are any
            self._skip(self._held.removesuffix(sample))
            self._leave_gap()
        self._append(sample)
        self._held, self._skipped, self._lines = "", 0, 0

    def _skip(self, text: str) -> None:
        self._skipped += len(text)
        self._lines += text.count("\n")

    def _leave_gap(self) -> None:
        if not self._at_line_end:
            self._append("\n")
            self._lines = max(0, self._lines - 1)  # this one was shown in part
        self._append(gap(self._lines, self._skipped))

    def _append(self, text: str) -> None:
        self._shown += len(text)
        self._at_line_end = text.endswith("\n")
        self._ctx.append(OutputStreamed(call_id=self._ctx.call_id, text=text))


def finished(
    cwd: str, end: CommandEnd, limits: Limits, preview: Preview, kept: Artifact, *, where: str
) -> str:
    """`where` is what the command was confined to, if anything."""
    refused = [_BLOCKED.format(where=where)] if where and _was_blocked(end, preview) else []
    return "\n".join([_folder(cwd), status(end, limits), *refused, *_output(preview, kept)])


def still_running(
    cwd: str, seconds: float, preview: Preview, kept: Artifact, *, waits_for_input: bool
) -> str:
    stuck = (
        "It is waiting for input, which cannot be given here: run it again with "
        "arguments instead, and do not wait for this one."
    )
    return "\n".join(
        [
            _folder(cwd),
            f"Still running after {max(1, round(seconds))} s. It continues in the background. "
            "You get a message when it ends. It ends with the task at the latest.",
            *([stuck] if waits_for_input else []),
            *_output_so_far(preview, kept),
        ]
    )


def ended_in_background(command: str, text: str, news: Preview, kept: Artifact) -> str:
    return "\n".join(
        [
            f"[automatic] The command that ran in the background has ended: {first_line(command)}",
            text,
            *(_output(news, kept) if news.total else ["It wrote nothing more."]),
        ]
    )


def status(end: CommandEnd, limits: Limits) -> str:
    match end:
        case CommandEnd(stopped=True):
            return "Ended by the user before it was done. Do not run it again unless they ask."
        case CommandEnd(timed_out=True):
            return (
                f"Ended by the time limit of {limits.command_seconds:g} s, before it was done. "
                "Do not run it again unchanged."
            )
        case CommandEnd(flooded=True):
            return (
                f"Ended because it wrote more than {limits.output_total / MIB:g} MiB. "
                "Send its output to a file, or ask it for less."
            )
        case CommandEnd(exit_code=0):
            return "Exit code: 0"
        case CommandEnd(exit_code=code) if code < 0:
            return (
                "Exit code: unknown. The end of the command was not seen; check what it has done."
            )
        case CommandEnd(exit_code=code, signal=""):
            return f"Exit code: {code}. Look at the output for the reason before going on."
        case CommandEnd(exit_code=code, signal=name):
            core = "; it may have left a core dump" if name in _CORE_DUMPS else ""
            return f"Exit code: {code}, killed by {name}{core}."


def _new_preview(ctx: ToolContext) -> Preview:
    return Preview(size=ctx.limits.output_for_model, head=ctx.limits.output_head)


def _was_blocked(end: CommandEnd, preview: Preview) -> bool:
    said = preview.text() if end.exit_code else ""
    return any(sign in said for sign in _SIGNS_OF_A_SANDBOX)


def _folder(cwd: str) -> str:
    return f"Directory: {cwd or '.'}"


def _output(preview: Preview, kept: Artifact) -> list[str]:
    if preview.complete:
        return ["Output:", preview.text()] if preview.total else ["It wrote nothing."]
    return [
        f"Output: {kept.size} bytes, kept as {kept.id}. This is its beginning and its "
        "end; read_command_output reads or searches the rest.",
        preview.text(),
    ]


def _output_so_far(preview: Preview, kept: Artifact) -> list[str]:
    where = f"All its output goes to {kept.id}, which read_command_output reads."
    if not preview.total:
        return [f"It has written nothing yet. {where}"]
    return [where, "Output so far:", preview.text()]
