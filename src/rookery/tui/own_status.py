"""A status line of the user's own: a template of fields, or the output of a command.

The command runs in the workspace with the session's figures as JSON on its input, at most once a
second and only when they have changed.
"""

import os
import re
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.text.output_preview import Cleaner
from rookery.core.text.terminal_text import harmless_line
from rookery.platform.git_folders import first_line, repository_of, separate_folder
from rookery.platform.own_programs import run_program

COMMAND_SECONDS = 2.0
PAUSE_SECONDS = 1.0
"""Minimum time between two runs of the command."""
BRANCH_SECONDS = 2.0
"""How long a branch is believed to be current."""
MAX_OUTPUT = 4096
_FIELD = re.compile(r"\{(\w+)\}")


class StatusFields(Struct, frozen=True, kw_only=True):
    """What a status line can show."""

    model: str = ""
    mode: str = ""
    level: str = ""
    cost: str = ""
    context: str = ""
    branch: str = ""
    folder: str = ""
    intent: str = ""
    session: str = ""


FIELDS = StatusFields.__struct_fields__


def filled(template: str, fields: StatusFields) -> str:
    """The template with its fields filled in; unknown ones stay as they are."""
    values = msgspec.structs.asdict(fields)
    line = _FIELD.sub(lambda found: values.get(found[1], found[0]), template)
    return harmless_line(line).strip(" ·|")  # separators of empty fields


def branch_of(workspace: Path) -> str:
    """The current git branch, or the beginning of the commit's id; empty outside a repository."""
    if (root := repository_of(workspace)) is None:
        return ""
    git = str(root / ".git")
    head = first_line(str(Path(separate_folder(git) or git, "HEAD"))).strip()
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:8]


class OwnStatus:
    """Fills the template, or runs the command when the fields have changed."""

    def __init__(self, template: str, command: str, show: Callable[[str], None]) -> None:
        self._template = template
        self._command = command
        self._show = show
        self._fields: StatusFields | None = None
        self._is_running = False
        self._branch = ""
        self._branch_until = 0.0

    @property
    def is_used(self) -> bool:
        return bool(self._template or self._command)

    @property
    def problem(self) -> str:
        """Why the template cannot be used as it is."""
        unknown = [name for name in _FIELD.findall(self._template) if name not in FIELDS]
        return f"ui.status_line: there is no field {{{unknown[0]}}}." if unknown else ""

    def update(
        self,
        fields: StatusFields,
        workspace: str,
        start: Callable[[Coroutine[Any, Any, object]], object],
    ) -> None:
        """Show the current line. `start` runs the command in the background."""
        if not workspace:
            return
        fields = replace(fields, branch=self._branch_now(workspace))
        if fields == self._fields or self._is_running:
            return
        self._fields = fields
        if self._command:
            self._is_running = True
            start(self._run(fields, workspace))
        else:
            self._show(filled(self._template, fields))

    def _branch_now(self, workspace: str) -> str:
        now = time.monotonic()
        if now >= self._branch_until:
            self._branch, self._branch_until = branch_of(Path(workspace)), now + BRANCH_SECONDS
        return self._branch

    async def _run(self, fields: StatusFields, workspace: str) -> None:
        try:
            output = partial(command_output, self._command, fields, workspace)
            self._show(await anyio.to_thread.run_sync(output, abandon_on_cancel=True))
            await anyio.sleep(PAUSE_SECONDS)
        finally:
            self._is_running = False


def command_output(command: str, fields: StatusFields, workspace: str) -> str:
    """The first line of the command's output, without colours; or why there is none."""
    try:
        done = run_program(
            ["/bin/sh", "-c", command],
            cwd=workspace,
            environment=os.environ,
            given=msgspec.json.encode(fields),
            seconds=COMMAND_SECONDS,
            most=MAX_OUTPUT,
        )
    except OSError as error:
        return f"status command: {error.strerror or error}"
    if done.status:
        return f"status command: exit code {done.status}"
    cleaner = Cleaner()
    text = cleaner.add(done.out.decode("utf-8", "replace")) + cleaner.finish()
    return harmless_line(text.strip().partition("\n")[0])
