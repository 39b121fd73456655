"""Lines typed at a terminal, read without ever blocking the program.

A terminal that collects a line itself forgets what goes beyond 4095 bytes, and takes every line
break of what is pasted for Enter. So whatever answers a question is read key by key.
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

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
"""What a terminal puts around what was pasted, if it was told to."""

_ENTER = "\r\n"
_ERASE = "\x7f\b"
_CTRL_C, _CTRL_D, _CTRL_U, _CTRL_W, _ESCAPE = "\x03", "\x04", "\x15", "\x17", "\x1b"


class TimedLine(Struct, frozen=True):
    """What came of waiting for a line. Nobody's words are empty words."""

    value: str
    timed_out: bool = False
    cancelled: bool = False


class TypedLine:
    """Enter ends it, and what follows that is left over. Line breaks in what the terminal says
    was pasted belong to the line."""

    def __init__(
        self, show: Callable[[str], None], at_end_of_input: Callable[[], None] | None = None
    ) -> None:
        """`at_end_of_input` is called instead of ending the line when Ctrl-D is pressed."""
        self._show = show
        self._at_end_of_input = at_end_of_input or self.end_of_input
        self._typed: list[str] = []
        self._unseen: list[str] = []
        self._skipping = ""
        self._pasting = False
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.result = TimedLine("")

    @property
    def so_far(self) -> str:
        """What was typed of a line that has not ended."""
        return "" if self.ended.is_set() else "".join(self._typed)

    def take(self, text: str) -> str:
        """Type this; what is left of it once the line has ended."""
        left = ""
        for at, key in enumerate(text):
            if self.ended.is_set():
                left = text[at:]
                break
            self.begun.set()
            self._press(key)
        seen, self._unseen = "".join(self._unseen), []
        if seen:
            self._show(seen)
        return left

    def clear(self) -> None:
        """Begin anew, with nothing typed."""
        self._typed.clear()
        self._skipping, self._pasting = "", False

    def end_of_input(self) -> None:
        self._end(TimedLine("", timed_out=True))

    def _press(self, key: str) -> None:
        if self._skipped(key):
            return
        if key in _ENTER and self._pasting:
            self._add("\n", shown="\n")
        elif key in _ENTER:
            self._unseen.append("\n")
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

    def _skipped(self, key: str) -> bool:
        """Whether the key is part of what an arrow or another special key sends."""
        if key == _ESCAPE:
            self._skipping = key
            return True
        if not self._skipping:
            return False
        sent = self._skipping + key
        follows = self._skipping == _ESCAPE and key in "[O"
        within = len(self._skipping) > 1 and not "@" <= key <= "~"
        self._skipping = sent if follows or within else ""
        self._pasting = sent == PASTE_BEGINS or (self._pasting and sent != PASTE_ENDS)
        return True

    def _add(self, key: str, *, shown: str) -> None:
        self._typed.append(key)
        self._unseen.append(shown)

    def _erase(self, count: int) -> None:
        for _ in range(min(count, len(self._typed))):
            cells = cells_of(self._typed.pop())
            self._unseen.append("\b" * cells + " " * cells + "\b" * cells)

    def _end(self, result: TimedLine) -> None:
        self.begun.set()
        if not self.ended.is_set():
            self.result = result
            self.ended.set()


def _last_word(text: str) -> int:
    """The length of the last word with the blanks behind it."""
    last = text.split()[-1:]
    return len(text) - len(text.rstrip().removesuffix("".join(last)))


_LOCAL_FLAGS, _CHARACTERS = 3, 6
_MOST = 65536
_MARK_PASTES, _LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"


class Keyboard:
    """Whoever waits for a line gets the next one. A line that nobody waited for is said unasked,
    and so is one that was begun before the last `hear_out`: it must never answer the question
    that happens to come up next.
    """

    def __init__(self, descriptor: int, unasked: Callable[[str], Awaitable[None]]) -> None:
        self._descriptor = descriptor
        self._unasked = unasked
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        """The line that nobody asked for and Enter has not ended yet."""
        self._begun_unasked = False
        self._none_begun = anyio.Event()
        self._answer: TypedLine | None = None
        """The line that somebody waits for."""
        self._keys = _Keys(descriptor)

    async def run(self) -> None:
        """Read until the terminal is gone."""
        while True:
            await anyio.wait_readable(self._descriptor)
            if not _readable(self._descriptor):
                continue
            try:
                data = os.read(self._descriptor, _MOST)
            except OSError:
                return self._grant(None)
            if data:
                await self._take(data)
            elif _hung_up(self._descriptor):
                return self._grant(None)
            else:
                self._grant(None)

    async def hear_out(self) -> None:
        """Let what has been typed so far be said unasked, also the line that is being typed.
        From now on keys are for a question, which is shown after this and waited for then."""
        await self._take(_bytes_so_far(self._descriptor))
        self._begun_unasked = bool(self._typed)
        if not self._begun_unasked:
            self._keys.begin(signals=True)

    def forget(self) -> None:
        """Ctrl-C was pressed, which takes back what Enter had not ended."""
        self._typed = ""
        if self._answer:
            self._answer.clear()

    async def line(self) -> str | None:
        """The next line, or None at the end of input."""
        with self._waiting(self._echo) as typed:
            while self._begun_unasked and not typed.ended.is_set():
                # which the terminal shows, and which has an end of its own
                self._none_begun = anyio.Event()
                await self._none_begun.wait()
            self._keys.begin(signals=True)
            await typed.ended.wait()
        return None if typed.result.timed_out else typed.result.value

    async def line_within(self, seconds: float, show: Callable[[str], None]) -> TimedLine:
        """The next line, unless nobody has begun one in time. A key that was pressed stops the
        clock for good. `show` is given what is to be seen of the typing."""
        with self._waiting(show) as typed:
            self._keys.begin(signals=False)
            with anyio.move_on_after(seconds):
                await typed.begun.wait()
            if not typed.begun.is_set():
                return TimedLine("", timed_out=True)
            await typed.ended.wait()
            return typed.result

    def _echo(self, typed: str) -> None:
        """Show it where the terminal would, unless it still does so itself."""
        if self._keys.begun:
            _show(self._descriptor, typed)

    @contextmanager
    def _waiting(self, show: Callable[[str], None]) -> Iterator[TypedLine]:
        """What was typed of a line that is waited for no longer is not forgotten: its end must
        not become an answer to something else."""
        self._answer = typed = TypedLine(show, at_end_of_input=lambda: self._grant(None))
        try:
            yield typed
        finally:
            self._keys.end()
            self._answer = None
            self._typed += typed.so_far

    async def _take(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        while text:
            answer = self._answer
            if answer and self._begun_unasked:
                answer.begun.set()
            if answer and not self._begun_unasked and not answer.ended.is_set():
                text = answer.take(text)
            else:
                text = await self._take_unasked(text)

    async def _take_unasked(self, text: str) -> str:
        """Take one line, or what there is of it; what follows it."""
        words, enter, rest = text.partition("\n")
        self._typed += words
        if enter and _within_a_paste(self._typed):
            self._typed += enter
        elif enter:
            said = _without_marks(self._typed).strip()
            self._typed, self._begun_unasked = "", False
            self._none_begun.set()
            if said:
                await self._unasked(said)
        return rest

    def _grant(self, line: str | None) -> None:
        """The input has ended: whoever waits for a line waits in vain."""
        self._none_begun.set()
        if line is None and self._answer:
            self._answer.end_of_input()


def _within_a_paste(text: str) -> bool:
    return text.rfind(PASTE_BEGINS) > text.rfind(PASTE_ENDS)


def _without_marks(text: str) -> str:
    return text.replace(PASTE_BEGINS, "").replace(PASTE_ENDS, "")


def typed_so_far(descriptor: int) -> str:
    """What was typed and not read yet, also without Enter. It is not read again."""
    text, lines = _bytes_so_far(descriptor).decode("utf-8", "replace"), []
    while text:
        line = TypedLine(lambda keys: None)
        text = line.take(text)
        lines.append(line.so_far or line.result.value)
    return "\n".join(lines).strip()


def line_at_once(descriptor: int, question: str, typed_before: str = "") -> str | None:
    """The next line, or None at the end of input, where nothing else goes on meanwhile. What
    follows it is left to whoever reads next. `typed_before` is in the line from the beginning."""
    decoder = getincrementaldecoder("utf-8")("replace")
    typed = TypedLine(lambda keys: _show(descriptor, keys))
    keys = _Keys(descriptor)
    keys.begin(signals=True)
    try:
        print(question, end="", flush=True)
        typed.take(typed_before)
        while not typed.ended.is_set():
            if data := os.read(descriptor, 1):
                typed.take(decoder.decode(data))
            else:
                typed.end_of_input()
    finally:
        keys.end()
    return None if typed.result.timed_out else typed.result.value


class _Keys:
    """A terminal that hands out every key at once, shows none itself and marks what is pasted;
    until `end`, when it is as before."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._usual: list[Any] | None = None
        self._wanted: list[Any] = []
        self._marks = os.environ.get("TERM", "dumb") not in ("", "dumb")

    @property
    def begun(self) -> bool:
        return self._usual is not None

    def begin(self, *, signals: bool) -> None:
        """Ctrl-C and Ctrl-Z are keys like any other unless they are to be `signals`."""
        try:
            usual = self._usual or termios.tcgetattr(self._descriptor)
        except termios.error:  # the terminal is gone, which whoever reads is about to notice
            return
        guard_of(self._descriptor)  # which has to see how the terminal is before
        keys = [*usual[:_CHARACTERS], [*usual[_CHARACTERS]]]
        keys[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | (0 if signals else termios.ISIG))
        keys[_CHARACTERS][termios.VMIN], keys[_CHARACTERS][termios.VTIME] = 1, 0
        self._wanted = keys
        if self._usual is None:
            # a shell that we were stopped in has set the terminal for itself
            self._before = signal.signal(signal.SIGCONT, self._set)
            self._usual = usual
        self._set()

    def end(self) -> None:
        if self._usual is None:
            return
        signal.signal(signal.SIGCONT, self._before)
        if self._marks:
            _show(self._descriptor, _LEAVE_PASTES)
        with suppress(termios.error):  # the terminal is gone, and so is how it was
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._usual)
        guard_of(self._descriptor).off()
        self._usual = None

    def _set(self, *_: object) -> None:
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._wanted)
        if self._marks:
            _show(self._descriptor, _MARK_PASTES)
        guard_of(self._descriptor).on(_LEAVE_PASTES if self._marks else "")


def _show(descriptor: int, text: str) -> None:
    """Write to the terminal that is read from. If it is gone, nobody sees anything anyway."""
    data = text.encode("utf-8", "replace")
    with suppress(OSError):
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:  # it was opened for reading only
            with open(os.ttyname(descriptor), "wb", buffering=0) as terminal:
                terminal.write(data)


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _hung_up(descriptor: int) -> bool:
    """Whether the end of input is that of the terminal, which is there for ever."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _bytes_so_far(descriptor: int) -> bytes:
    """All that has been typed, with a line that Enter has not ended, which a terminal hands out
    only while it does not wait for whole lines.
    """
    try:
        usual = termios.tcgetattr(descriptor)
        eager = [*usual[:_CHARACTERS], [*usual[_CHARACTERS]]]
        eager[_LOCAL_FLAGS] &= ~termios.ICANON
        eager[_CHARACTERS][termios.VMIN] = eager[_CHARACTERS][termios.VTIME] = 0
        termios.tcsetattr(descriptor, termios.TCSANOW, eager)
        try:
            return os.read(descriptor, _MOST)
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, usual)
    except (termios.error, OSError):
        return b""  # the terminal is gone, and `run` is about to notice
