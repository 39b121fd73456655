"""What goes with the next message: images, and output of the user's own commands.

An image is pasted as a path or taken from the clipboard. Both are explicit actions of the user, so
any readable file is allowed. The content decides the image type, not the name. A file dragged into
a terminal arrives as pasted text: plain, quoted, with escaped blanks, or as a URI.
"""

import errno
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery.core.blocks import TOGETHER, Image, Sight, picture
from rookery.core.limits import MIB
from rookery.core.queries import AskModels
from rookery.errors import CommandRejected
from rookery.platform.own_programs import run_program
from rookery.protocol.picture_files import MOST, load_pictures
from rookery.tui.interfaces import Controller
from rookery.tui.short_texts import byte_count

MAX_IMAGES = 20
FIND_FILE_SECONDS = 2.0
"""Seconds to look for a file: a network folder may never answer."""
TOO_MANY = f"A message can have at most {MAX_IMAGES} attachments."
TOO_MUCH = f"The images of a message can have at most {TOGETHER // MIB} MiB together."
MAX_READ = 10 * MIB
TOO_LARGE = f"Not attached: The image is too large; the limit is {MAX_READ // MIB} MiB."
NO_IMAGE = "There is no image in the clipboard."
NO_READER = "No program here can read the clipboard. Install {}."


class Attached(Struct, frozen=True, kw_only=True):
    """An image, or a text."""

    name: str
    image: Image | None = None
    text: str = ""


class Attachments:
    """What is attached. A toast explains why an image is not accepted."""

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
        """Attach the image whose path the text is. Returns False if the text should stay text."""
        path = await _first_file(image_paths(text, self._home))
        if path is None or not await self._accepts_images():
            return False
        images, problems = await load_pictures([path], "/")
        for problem in problems:
            self._controller.toast(f"Not attached: {problem['error']}", "warning")
        return any([self._add(Attached(name=PurePath(path).name, image=each)) for each in images])

    async def from_clipboard(self, fallback: Callable[[], bool]) -> None:
        """Attach the image in the clipboard; if there is none, call `fallback`, which returns
        whether it did something."""
        try:
            data = await anyio.to_thread.run_sync(clipboard_image, abandon_on_cancel=True)
        except OSError:
            self._controller.toast(TOO_LARGE, "warning")
            return
        if data:
            await self._add_data(data)
        elif fallback():
            return
        elif readers():
            self._controller.toast(NO_IMAGE)
        else:
            package = "pngpaste" if sys.platform == "darwin" else "wl-clipboard or xclip"
            self._controller.toast(NO_READER.format(package), "warning")

    async def _add_data(self, data: bytes) -> None:
        found = picture(data, Sight(sees=True, most=MOST))
        if found is None:
            self._controller.toast(NO_IMAGE)
        elif found.image is None:
            self._controller.toast(f"Not attached: {found.words}", "warning")
        elif await self._accepts_images():
            self._add(Attached(name="clipboard", image=found.image))

    def add_text(self, name: str, text: str) -> None:
        self._add(Attached(name=name, text=text))

    def drop_last(self) -> None:
        self._set(self._attached[:-1])

    def take(self, *, texts: bool = True) -> tuple[Attached, ...]:
        """Remove and return everything, or only the images, to send it."""
        taken = tuple(each for each in self._attached if each.image or texts)
        self._set(tuple(each for each in self._attached if each not in taken))
        return taken

    def clear(self) -> None:
        self._set(())

    def put_back(self, taken: Sequence[Attached]) -> None:
        """Put back what could not be sent."""
        self._set((*taken, *self._attached)[:MAX_IMAGES])

    async def _accepts_images(self) -> bool:
        """Whether the model accepts images; assumed of an unknown model."""
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
        if len(self._attached) >= MAX_IMAGES:
            self._controller.toast(TOO_MANY, "warning")
            return False
        images = [each.image for each in (*self._attached, new) if each.image]
        if sum(map(byte_count, images)) > TOGETHER:
            self._controller.toast(TOO_MUCH, "warning")
            return False
        self._set((*self._attached, new))
        return True

    def _set(self, attached: tuple[Attached, ...]) -> None:
        if attached != self._attached:
            self._attached = attached
            self._show(attached)


async def _first_file(paths: Sequence[str]) -> str | None:
    with anyio.move_on_after(FIND_FILE_SECONDS):
        for path in paths:
            if await anyio.to_thread.run_sync(os.path.isfile, path, abandon_on_cancel=True):
                return path
    return None


CLIPBOARD_SECONDS = 2.0
"""Seconds for all programs together: the owner of the clipboard may never answer."""
_READERS: Sequence[Sequence[str]] = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)


def readers() -> list[Sequence[str]]:
    """Installed commands that print the clipboard's image."""
    return [command for command in _READERS if shutil.which(command[0])]


def clipboard_image() -> bytes:
    """The clipboard's image, or nothing. Raises `OSError` if it is too large."""
    until = time.monotonic() + CLIPBOARD_SECONDS
    for command in readers():
        left = max(0.0, until - time.monotonic())
        try:
            done = run_program(
                command, cwd="/", environment=os.environ, seconds=left, most=MAX_READ
            )
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise
            continue  # removed, built for another machine, or too slow
        if done.out and done.status == 0:
            return done.out
    return b""


MAX_PATH_LENGTH = 8192
_KINDS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def image_paths(text: str, home: str) -> list[str]:
    """Paths the text may stand for, most likely first; only those of images."""
    text = text.strip()
    if not text or len(text) > MAX_PATH_LENGTH or not text.isprintable():
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
    except ValueError:  # an unbalanced quote, such as an apostrophe
        return []
    return words if len(words) == 1 else []


def _at_home(path: str, home: str) -> str:
    return os.path.join(home, path.removeprefix("~/")) if path.startswith("~/") else path
