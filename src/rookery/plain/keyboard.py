"""Reads typed lines from a terminal without blocking the event loop.

In canonical mode a terminal drops input beyond 4095 bytes per line, and every line break in pasted
text counts as Enter. Answers to questions are therefore read key by key.
"""

import os
import select
import signal
import termios
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from msgspec import Struct

from rookery.core.text.terminal_text import cells_of
from rookery.platform.terminal_guard import guard_of

PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"
"""Escape sequences around pasted text, in bracketed paste mode."""

_ENTER = "\r\n"
_ERASE = "\x7f\b"
_CTRL_C, _CTRL_D, _CTRL_U, _CTRL_W, _ESCAPE = "\x03", "\x04", "\x15", "\x17", "\x1b"


class TimedLine(Struct, frozen=True):
    """Result of waiting for a line; `value` is empty if it timed out or was cancelled."""

    value: str
    timed_out: bool = False
    cancelled: bool = False


class TypedLine:
    """A line being typed, ended by Enter. Line breaks inside a bracketed paste belong to the
    line."""

    def __init__(
        self, show: Callable[[str], None], at_end_of_input: Callable[[], None] | None = None
    ) -> None:
        """`at_end_of_input` is called on Ctrl-D instead of ending the line."""
        self._show = show
        self._at_end_of_input = at_end_of_input or self.end_of_input
        self._typed: list[str] = []
        self._to_echo: list[str] = []
        self._escape = ""
        self._pasting = False
        self.started = anyio.Event()
        self.ended = anyio.Event()
        self.result = TimedLine("")

    @property
    def so_far(self) -> str:
        """The text typed so far; empty once the line has ended."""
        return "" if self.ended.is_set() else "".join(self._typed)

    def feed(self, text: str) -> str:
        """Process typed characters, and return those that follow the end of the line."""
        left = ""
        for at, key in enumerate(text):
            if self.ended.is_set():
                left = text[at:]
                break
            self.started.set()
            self._press(key)
        seen, self._to_echo = "".join(self._to_echo), []
        if seen:
            self._show(seen)
        return left

    def clear(self) -> None:
        """Discard what was typed."""
        self._typed.clear()
        self._escape, self._pasting = "", False

    def end_of_input(self) -> None:
        self._end(TimedLine("", timed_out=True))

    def _press(self, key: str) -> None:
        if self._skip_escape(key):
            return
        if key in _ENTER and self._pasting:
            self._add("\n", shown="\n")
        elif key in _ENTER:
            self._to_echo.append("\n")
            self._end(TimedLine("".join(self._typed)))
        elif key == _CTRL_C:
            self._end(TimedLine("", cancelled=True))
        elif key == _CTRL_D and not self._typed:
            self._at_end_of_input()
        elif key in _ERASE:
            self._erase(1)
        elif key == _CTRL_U:
            self._erase(len(self._typed))
        elif key == _CTRL_W:
            self._erase(_last_word("".join(self._typed)))
        elif key == "\t" or unicodedata.category(key)[0] != "C":
            self._add(key, shown=" " if key == "\t" else key)

    def _skip_escape(self, key: str) -> bool:
        """Whether the key is part of an escape sequence, such as that of an arrow key."""
        if key == _ESCAPE:
            self._escape = key
            return True
        if not self._escape:
            return False
        sent = self._escape + key
        follows = self._escape == _ESCAPE and key in "[O"
        within = len(self._escape) > 1 and not "@" <= key <= "~"
        self._escape = sent if follows or within else ""
        self._pasting = sent == PASTE_START or (self._pasting and sent != PASTE_END)
        return True

    def _add(self, key: str, *, shown: str) -> None:
        self._typed.append(key)
        self._to_echo.append(shown)

    def _erase(self, count: int) -> None:
        for _ in range(min(count, len(self._typed))):
            cells = cells_of(self._typed.pop())
            self._to_echo.append("\b" * cells + " " * cells + "\b" * cells)

    def _end(self, result: TimedLine) -> None:
        self.started.set()
        if not self.ended.is_set():
            self.result = result
            self.ended.set()


def _last_word(text: str) -> int:
    """Length of the last word including the blanks after it."""
    last = text.split()[-1:]
    return len(text) - len(text.rstrip().removesuffix("".join(last)))


_LOCAL_FLAGS, _CHARACTERS = 3, 6
_MAX_READ = 65536
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Keyboard:
    """Gives each typed line to the caller that waits for one, else to the `on_early_line` callback.
    A line started before the last `drain_typed` is early too: it must not answer a question that
    the user had not seen."""

    def __init__(self, descriptor: int, on_early_line: Callable[[str], Awaitable[None]]) -> None:
        self._descriptor = descriptor
        self._on_early_line = on_early_line
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        """A line typed while no question was open, before Enter."""
        self._started_early = False
        self._early_ended = anyio.Event()
        self._answer: TypedLine | None = None
        """The line a caller is waiting for."""
        self._keys = _KeyMode(descriptor)

    async def run(self) -> None:
        """Read until the terminal is closed."""
        while True:
            await anyio.wait_readable(self._descriptor)
            if not _is_readable(self._descriptor):
                continue
            try:
                data = os.read(self._descriptor, _MAX_READ)
            except OSError:
                return self._end_input()
            if data:
                await self._feed(data)
            elif _is_hung_up(self._descriptor):
                return self._end_input()
            else:
                self._end_input()

    async def drain_typed(self) -> None:
        """Treat everything typed so far as early, including an unfinished line. Call it right
        before a question is shown: later keys answer the question."""
        await self._feed(_read_available(self._descriptor))
        self._started_early = bool(self._typed)
        if not self._started_early:
            self._keys.begin(signals=True)

    def forget(self) -> None:
        """Discard the unfinished line. Called on Ctrl-C."""
        self._typed = ""
        if self._answer:
            self._answer.clear()

    async def line(self) -> str | None:
        """Return the next line, or None at the end of input."""
        with self._waiting(self._echo) as typed:
            while self._started_early and not typed.ended.is_set():
                # the terminal still echoes that line and ends it on Enter
                self._early_ended = anyio.Event()
                await self._early_ended.wait()
            self._keys.begin(signals=True)
            await typed.ended.wait()
        return None if typed.result.timed_out else typed.result.value

    async def line_within(self, seconds: float, show: Callable[[str], None]) -> TimedLine:
        """Return the next line, or a timeout if no key is pressed in time. `show` receives the
        characters to echo."""
        with self._waiting(show) as typed:
            self._keys.begin(signals=False)
            with anyio.move_on_after(seconds):
                await typed.started.wait()
            if not typed.started.is_set():
                return TimedLine("", timed_out=True)
            await typed.ended.wait()
            return typed.result

    def _echo(self, typed: str) -> None:
        """Echo typed characters, unless the terminal still echoes them itself."""
        if self._keys.is_on:
            _show(self._descriptor, typed)

    @contextmanager
    def _waiting(self, show: Callable[[str], None]) -> Iterator[TypedLine]:
        """Collect an answer. If the wait is cancelled, a half-typed line becomes early input,
        so that its rest does not answer the next question."""
        self._answer = typed = TypedLine(show, at_end_of_input=lambda: self._end_input())
        try:
            yield typed
        finally:
            self._keys.end()
            self._answer = None
            self._typed += typed.so_far

    async def _feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        while text:
            answer = self._answer
            if answer and self._started_early:
                answer.started.set()
            if answer and not self._started_early and not answer.ended.is_set():
                text = answer.feed(text)
            else:
                text = await self._feed_early(text)

    async def _feed_early(self, text: str) -> str:
        """Consume input up to the end of a line, and return the rest."""
        words, enter, rest = text.partition("\n")
        self._typed += words
        if enter and _is_in_paste(self._typed):
            self._typed += enter
        elif enter:
            entered = _strip_paste_marks(self._typed).strip()
            self._typed, self._started_early = "", False
            self._early_ended.set()
            if entered:
                await self._on_early_line(entered)
        return rest

    def _end_input(self) -> None:
        """Report the end of input to the caller that waits for a line."""
        self._early_ended.set()
        if self._answer:
            self._answer.end_of_input()


def _is_in_paste(text: str) -> bool:
    return text.rfind(PASTE_START) > text.rfind(PASTE_END)


def _strip_paste_marks(text: str) -> str:
    return text.replace(PASTE_START, "").replace(PASTE_END, "")


def read_typed_ahead(descriptor: int) -> str:
    """Read and return everything typed and not read yet, also without Enter."""
    text, lines = _read_available(descriptor).decode("utf-8", "replace"), []
    while text:
        line = TypedLine(lambda keys: None)
        text = line.feed(text)
        lines.append(line.so_far or line.result.value)
    return "\n".join(lines).strip()


def read_line_blocking(descriptor: int, question: str, typed_before: str = "") -> str | None:
    """Ask and return the next line, or None at the end of input. Blocks. Reads byte by byte, so
    that later input stays for the next reader. The line starts with `typed_before`."""
    decoder = getincrementaldecoder("utf-8")("replace")
    typed = TypedLine(lambda keys: _show(descriptor, keys))
    keys = _KeyMode(descriptor)
    keys.begin(signals=True)
    try:
        print(question, end="", flush=True)
        typed.feed(typed_before)
        while not typed.ended.is_set():
            if data := os.read(descriptor, 1):
                typed.feed(decoder.decode(data))
            else:
                typed.end_of_input()
    finally:
        keys.end()
    return None if typed.result.timed_out else typed.result.value


class _KeyMode:
    """Puts a terminal into key-by-key mode without echo and with bracketed paste, until `end`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._saved: list[Any] | None = None
        self._key_mode: list[Any] = []
        self._marks_pastes = os.environ.get("TERM", "dumb") not in ("", "dumb")

    @property
    def is_on(self) -> bool:
        return self._saved is not None

    def begin(self, *, signals: bool) -> None:
        """With `signals`, Ctrl-C and Ctrl-Z still send signals; otherwise they are ordinary
        keys."""
        try:
            saved = self._saved or termios.tcgetattr(self._descriptor)
        except termios.error:  # the terminal is gone, which the next read reports
            return
        guard_of(self._descriptor)  # records the state to restore
        keys = [*saved[:_CHARACTERS], [*saved[_CHARACTERS]]]
        keys[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | (0 if signals else termios.ISIG))
        keys[_CHARACTERS][termios.VMIN], keys[_CHARACTERS][termios.VTIME] = 1, 0
        self._key_mode = keys
        if self._saved is None:
            # after Ctrl-Z, the shell has changed the terminal settings
            self._old_handler = signal.signal(signal.SIGCONT, self._set)
            self._saved = saved
        self._set()

    def end(self) -> None:
        if self._saved is None:
            return
        signal.signal(signal.SIGCONT, self._old_handler)
        if self._marks_pastes:
            _show(self._descriptor, _PASTE_OFF)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._saved)
        guard_of(self._descriptor).off()
        self._saved = None

    def _set(self, *_: object) -> None:
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._key_mode)
        if self._marks_pastes:
            _show(self._descriptor, _PASTE_ON)
        guard_of(self._descriptor).on(_PASTE_OFF if self._marks_pastes else "")


def _show(descriptor: int, text: str) -> None:
    """Write to the terminal behind the input descriptor; errors are ignored."""
    data = text.encode("utf-8", "replace")
    with suppress(OSError):
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:  # opened for reading only
            with open(os.ttyname(descriptor), "wb", buffering=0) as terminal:
                terminal.write(data)


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _is_hung_up(descriptor: int) -> bool:
    """Whether the terminal is closed, as opposed to Ctrl-D on an empty line."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _read_available(descriptor: int) -> bytes:
    """Read everything typed so far. A terminal returns an unfinished line only outside canonical
    mode."""
    try:
        saved = termios.tcgetattr(descriptor)
        eager = [*saved[:_CHARACTERS], [*saved[_CHARACTERS]]]
        eager[_LOCAL_FLAGS] &= ~termios.ICANON
        eager[_CHARACTERS][termios.VMIN] = eager[_CHARACTERS][termios.VTIME] = 0
        termios.tcsetattr(descriptor, termios.TCSANOW, eager)
        try:
            return os.read(descriptor, _MAX_READ)
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, saved)
    except (termios.error, OSError):
        return b""  # the terminal is gone, which `run` will notice
