"""The session of a command that only asks the model: options, settings, and what it may use.

The folder counts as not trusted, whatever the user said of it: its settings, rules, hooks,
servers and commands are not used, and nothing in it can be changed. The command names the tools.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery.app.model_choice import checked_provider, choose_model
from rookery.app.task_hooks import Consent
from rookery.cli.command_line import Seconds
from rookery.cli.main import hide_key
from rookery.cli.reports import TextReport
from rookery.cli.run_options import Run
from rookery.core.commands import OpenTask
from rookery.core.facts import Event, ModeSwitched
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import harmless
from rookery.engine.ports.tool import Tool
from rookery.engine.ports.workspace import Files
from rookery.errors import ToolError
from rookery.platform.user_folders import Places
from rookery.protocol.attend import Display, Fate, RunEnd
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator: TypeAlias = Callable[[Decorated], Decorated]

_OPTIONS: tuple[Decorator[Any], ...] = (
    click.option("--provider", help="The model's provider."),
    click.option("-m", "--model", help="The model to call."),
    click.option("--base-url", help="The address of the provider's API."),
    click.option("-k", "--api-key", callback=hide_key, help="The API key to use."),
    click.option(
        "--timeout",
        type=Seconds(min=0, min_open=True),
        help="End the run after this many seconds.",
    ),
    click.option(
        "--max-turns", type=click.IntRange(min=1), help="Send at most this many requests."
    ),
)


def model_options(command: Decorated) -> Decorated:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class ModelFlags(Struct, frozen=True, kw_only=True):
    provider: str | None
    model: str | None
    base_url: str | None
    api_key: str | None
    timeout: float | None
    max_turns: int | None


def settings_of(flags: ModelFlags, places: Places) -> Settings:
    """The user's own settings; the folder's are not read."""
    if flags.provider is not None:
        checked_provider(flags.provider)
    given = {
        "provider": flags.provider,
        "model": flags.model,
        "base_url": flags.base_url,
        "max_requests": flags.max_turns,
    }
    return find_settings(places.settings_file, None, os.environ, given).settings


def model_run(
    flags: ModelFlags,
    settings: Settings,
    workspace: Path,
    places: Places,
    *,
    text: str,
    only: Iterable[str],
    added: Iterable[Tool[Any]] = (),
) -> Run:
    """A run in mode ask with these tools only, which asks and changes nothing."""
    names, more = frozenset(only), {tool.name: tool for tool in added}
    careful = replace(
        settings,
        mode="ask",
        turn_end="words",
        context=replace(settings.context, prompt="compact"),
        browser=replace(settings.browser, use=False),
    )
    return Run(
        settings=careful,
        choice=choose_model(careful, os.environ, places.keys_file, flags.api_key),
        store=TaskStore(places),
        workspace=workspace,
        first=OpenTask(task_id=str(uuid.uuid4()), text=text, mode="ask"),
        once=True,
        timeout=flags.timeout,
        consent=Consent(attended=False, mode="ask"),
        places=places,
        tools=lambda every: {name: every[name] for name in every if name in names} | more,
    )


def hides(files: Files) -> Callable[[str], bool]:
    """Tells whether a file is kept from the model: ignored by the user, or a credential."""

    def hidden(path: str) -> bool:
        try:
            place = files.place(path)
        except ToolError:  # a name that no tool can open, which must not hide its content
            return False
        return place.ignored or place.credential

    return hidden


class ProgressReport(TextReport):
    """What a person sees on standard error; the result is printed by the command."""

    def __init__(self, run: Run, doing: str) -> None:
        super().__init__(run, out=sys.stderr, shows_result=False, resumable=False)
        self.display = _WithoutModes(self.plain)
        self._doing = doing

    def begin(self) -> None:
        choice = self._run.choice
        self._started = True
        self._dim(f"{self._doing} · {choice.provider} {harmless(choice.name)} · read-only")

    def end(self, end: RunEnd) -> None:
        super().end(end)
        if self._live and sys.stdout.isatty():
            self.screen.line("")


class QuietReport:
    """For output that programs read: only an error is printed."""

    def __init__(self) -> None:
        self.display: Display = _NoDisplay()

    def begin(self) -> None:
        pass

    async def beat(self) -> None:
        pass

    def end(self, end: RunEnd) -> None:
        if end.reason and (end.fate is not Fate.COMPLETED or end.code):
            print(f"Error: {harmless(end.reason)}", file=sys.stderr)


class _WithoutModes:
    """Hides that the session is left in another mode, for the person who continues it."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def show(self, event: Event, child: str = "") -> None:
        if child or not isinstance(event.fact, ModeSwitched):
            self._display.show(event, child)


class _NoDisplay:
    def show(self, event: Event, child: str = "") -> None:
        pass
