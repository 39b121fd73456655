"""Pictures that go with the next message: pasted by path, or taken from the clipboard.

Both are the user's own deed, so any file of theirs may be read. The first bytes decide what kind of
picture it is, not its name. A file that is dragged into a terminal arrives as pasted text: as it
is, in quotes, with a backslash before each blank, or as a URI.
"""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from subprocess import DEVNULL, PIPE
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
from anyio.abc import Process
from msgspec import Struct

from rookery.core.blocks import TOGETHER, Image, Sight, picture
from rookery.core.limits import MIB
from rookery.core.queries import AskModels
from rookery.errors import CommandRejected
from rookery.protocol.picture_files import MOST, load_pictures
from rookery.tui.interfaces import Controller
from rookery.tui.short_texts import byte_count

MOST_PICTURES = 20
LOOKING_SECONDS = 2.0
"""For finding a file: folders of other machines may never answer."""
TOO_MANY = f"A message can have at most {MOST_PICTURES} images."
TOO_MUCH = f"The images of a message can have at most {TOGETHER // MIB} MiB together."
NO_PICTURE = "There is no image in the clipboard."
NO_READER = "No program here can read the clipboard. Install {}."


class Attached(Struct, frozen=True, kw_only=True):
    name: str
    image: Image


class Attachments:
    """What is attached, and what may be. Why something is not, a toast tells."""

    def __init__(
        self, controller: Controller, show: Callable[[Sequence[Attached]], None], home: str
    ) -> None:
        self._controller = controller
        self._show = show
        self._home = home
        self._attached: tuple[Attached, ...] = ()

    @property
    def attached(self) -> tuple[Attached, ...]:
        return self._attached

    async def from_text(self, text: str) -> bool:
        """Attach the picture that the text is a path of. False if it is to stay text."""
        path = await _file_among(picture_paths(text, self._home))
        if path is None or not await self._is_wanted():
            return False
        images, problems = await load_pictures([path], "/")
        for problem in problems:
            self._controller.toast(f"Not attached: {problem['error']}", "warning")
        return any([self._add(Attached(name=PurePath(path).name, image=each)) for each in images])

    async def from_clipboard(self, otherwise: Callable[[], bool]) -> None:
        """Attach the picture in the clipboard. Where there is none, something else is done
        `otherwise`, if it can be."""
        if data := await clipboard_picture():
            await self._add_data(data)
        elif otherwise():
            return
        elif readers():
            self._controller.toast(NO_PICTURE)
        else:
            self._controller.toast(NO_READER.format(what_to_install()), "warning")

    async def _add_data(self, data: bytes) -> None:
        whole = len(data) <= MOST_READ
        found = picture(data[:MOST_READ], Sight(sees=True, most=MOST), complete=whole)
        if found is None:
            self._controller.toast(NO_PICTURE)
        elif found.image is None:
            self._controller.toast(f"Not attached: {found.words}", "warning")
        elif await self._is_wanted():
            self._add(Attached(name="clipboard", image=found.image))

    def drop_last(self) -> None:
        self._put(self._attached[:-1])

    def take(self) -> tuple[Attached, ...]:
        """All of them, to be sent."""
        taken = self._attached
        self.clear()
        return taken

    def clear(self) -> None:
        self._put(())

    def give_back(self, taken: Sequence[Attached]) -> None:
        """They could not be sent."""
        self._put((*taken, *self._attached)[:MOST_PICTURES])

    async def _is_wanted(self) -> bool:
        """Whether the model at work sees pictures. One that nobody knows is given the chance."""
        controller = self._controller
        name = (controller.view.model if controller.view else "") or controller.about.model
        try:
            known = [each for each in await controller.ask(AskModels()) if each.model == name]
        except CommandRejected:
            return True
        if not known or any(each.images for each in known):
            return True
        controller.toast(
            f"{name} is not known to accept images. Press F4 to choose another model.", "warning"
        )
        return False

    def _add(self, new: Attached) -> bool:
        if len(self._attached) >= MOST_PICTURES:
            self._controller.toast(TOO_MANY, "warning")
            return False
        if sum(byte_count(each.image) for each in (*self._attached, new)) > TOGETHER:
            self._controller.toast(TOO_MUCH, "warning")
            return False
        self._put((*self._attached, new))
        return True

    def _put(self, attached: tuple[Attached, ...]) -> None:
        if attached != self._attached:
            self._attached = attached
            self._show(attached)


async def _file_among(paths: Sequence[str]) -> str | None:
    with anyio.move_on_after(LOOKING_SECONDS):
        for path in paths:
            if await anyio.to_thread.run_sync(os.path.isfile, path, abandon_on_cancel=True):
                return path
    return None


PATIENCE_SECONDS = 2.0
"""For all programs together: who owns the clipboard may never answer."""
MOST_READ = 10 * MIB
_READERS: Sequence[Sequence[str]] = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)


def readers() -> list[Sequence[str]]:
    """The commands that print a picture, of those that are installed."""
    return [command for command in _READERS if shutil.which(command[0])]


def what_to_install() -> str:
    return "pngpaste" if sys.platform == "darwin" else "wl-clipboard or xclip"


async def clipboard_picture(patience: float = PATIENCE_SECONDS) -> bytes:
    """Nothing if there is none. One byte more than `MOST_READ` if there is more than that."""
    with anyio.move_on_after(patience):
        for command in readers():
            if data := await _printed(command):
                return data
    return b""


async def _printed(command: Sequence[str]) -> bytes:
    """What a command prints, if it succeeds or there is too much of it."""
    try:
        process = await anyio.open_process(
            command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        )
    except OSError:  # it went away, or is no program of this machine
        return b""
    try:
        data = await _read(process)
        enough = len(data) > MOST_READ or await process.wait() == 0
        return data if enough else b""
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()


async def _read(process: Process) -> bytes:
    assert process.stdout
    data = bytearray()
    async for piece in process.stdout:
        data += piece
        if len(data) > MOST_READ:
            break
    return bytes(data[: MOST_READ + 1])


LONGEST = 8192
_KINDS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def picture_paths(text: str, home: str) -> list[str]:
    """What it may be the path of, the likeliest first; nothing if it is no path of a picture."""
    text = text.strip()
    if not text or len(text) > LONGEST or not text.isprintable():
        return []
    if text.startswith("file:"):
        found = _in_uri(text)
    else:
        found = list(dict.fromkeys([text, *_in_shell_words(text)]))
    paths = (_at_home(path, home) for path in found)
    return [path for path in paths if path.startswith("/") and path.lower().endswith(_KINDS)]


def _in_uri(text: str) -> list[str]:
    try:
        uri = urlsplit(text)
    except ValueError:
        return []
    return [unquote(uri.path)] if uri.netloc in ("", "localhost", os.uname().nodename) else []


def _in_shell_words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark that belongs to the name
        return []
    return words if len(words) == 1 else []


def _at_home(path: str, home: str) -> str:
    return os.path.join(home, path.removeprefix("~/")) if path.startswith("~/") else path
