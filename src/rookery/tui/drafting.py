"""The draft in the input area: restored after a crash, and opened in the user's own editor.

Other programs that need the terminal, such as the sign-in, get it here too.
"""

import os
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from textual.app import App, SuspendNotSupported

from rookery.platform.editor import editor_command
from rookery.tui.composer import Composer
from rookery.tui.input_files import InputHistory
from rookery.tui.interfaces import Controller


class Drafting:
    def __init__(
        self, app: App[Any], controller: Controller, composer: Composer, inputs: InputHistory
    ) -> None:
        self._app = app
        self._controller = controller
        self._composer = composer
        self._inputs = inputs
        self.is_editing = False
        """Whether the editor has the terminal."""

    def restore(self, typed: str, *, typed_ahead: bool) -> None:
        """Restore the draft that an earlier client left. If another text comes first (`typed`, or
        keys that are not read yet), Up shows it."""
        stored = self._inputs.draft.take() if self._inputs.draft else ""
        if typed:
            self._composer.set_text(typed)
        if stored and typed_ahead:
            self._composer.offer(stored)
            self._controller.toast("Your last draft is kept: ↑ shows it.")
        elif stored:
            self._composer.set_text(stored)
            self._controller.toast("Your last draft is back. Esc clears it.")

    async def edit(self) -> None:
        """Open the draft in the user's editor. If that fails, the draft is unchanged."""
        try:
            command = editor_command(os.environ)
            text = await self._edited(command, self._composer.text)
        except (OSError, ValueError, SuspendNotSupported) as error:
            self._controller.toast(f"Could not use the editor: {error}", "error")
            return
        if text is None:
            name = Path(command[0]).name
            self._controller.toast(f"{name} failed. Your draft is unchanged.", "warning")
        elif text != self._composer.text:
            self._composer.clear_draft()
            self._composer.set_text(text)

    async def edited_plan(self, plan: str) -> str:
        """The plan after editing; unchanged if the editor fails or leaves nothing."""
        try:
            text = await self._edited(editor_command(os.environ), plan)
        except (OSError, ValueError, SuspendNotSupported) as error:
            self._controller.toast(f"Could not use the editor: {error}", "error")
            return plan
        if text is None:
            self._controller.toast("The editor failed, so the plan is unchanged.", "warning")
            return plan
        if not text.strip():
            self._controller.toast("The file was empty, so the plan is unchanged.", "warning")
            return plan
        if text != plan:
            self._inputs.add(text)  # keep the text after this client and the question are gone
        return text

    async def edit_file(self, path: str) -> None:
        """Open a file of the user or the project in the user's editor."""
        try:
            if not await anyio.Path(path).is_file():
                raise OSError(f"{path} is not on this machine.")
            code = await self._run([*editor_command(os.environ), path])
        except (OSError, ValueError, SuspendNotSupported) as error:
            self._controller.toast(f"Could not use the editor: {error}", "error")
            return
        if code != 0:
            self._controller.toast(f"The editor failed with exit code {code}.", "warning")

    async def sign_in(self, provider: str) -> bool:
        """Ask for a key, or sign in, in the terminal. Returns whether a key was stored."""
        command = [sys.executable, "-m", "rookery", "auth", *([provider] if provider else [])]
        try:
            code = await self._run(command)
        except (OSError, SuspendNotSupported) as error:
            self._controller.toast(f"Could not use the terminal: {error}", "error")
            return False
        if code != 0:
            self._controller.toast("No key was stored.", "warning")
        return code == 0

    async def _edited(self, command: Sequence[str], text: str) -> str | None:
        """The text after editing; None if the editor failed."""
        with TemporaryDirectory(prefix="rookery-draft-") as folder:
            file = anyio.Path(folder, "message.md")
            await file.write_text(text, encoding="utf-8")
            if await self._run([*command, str(file)]) != 0:
                return None
            return (await file.read_text(encoding="utf-8", errors="replace")).rstrip("\n")

    async def _run(self, command: Sequence[str]) -> int:
        """Give the terminal to a program. The session goes on meanwhile, but nothing is drawn."""
        self.is_editing = True
        try:
            with self._app.batch_update(), self._app.suspend():
                # an error in here would leave the terminal suspended, so it is raised below
                ended = await _exit_code(command)
        finally:
            self.is_editing = False
        if isinstance(ended, OSError):
            raise ended
        return ended


async def _exit_code(command: Sequence[str]) -> int | OSError:
    try:
        process = await anyio.open_process(command, stdin=None, stdout=None, stderr=None)
        return await process.wait()
    except OSError as error:
        return OSError(f"{command[0]}: {error.strerror or error}")
    finally:
        _discard_keys()


def _discard_keys() -> None:
    """Discard keys that were meant for the editor."""
    assert sys.__stdin__
    with suppress(termios.error):
        termios.tcflush(sys.__stdin__.fileno(), termios.TCIFLUSH)
