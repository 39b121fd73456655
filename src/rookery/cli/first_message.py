"""Questions on a plain terminal before a session is open: the first message, with the commands
that work before it, and which session to continue."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.app.listed_models import usable_models
from rookery.app.model_choice import ModelChoice
from rookery.cli.run_options import RunFolder
from rookery.core.commands import OpenTask
from rookery.core.modes import CYCLE, level_named
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.plain.keyboard import read_line_blocking
from rookery.protocol.client_commands import list_models, list_modes
from rookery.storage.sessions import TaskStore

HELP = """\
/model [PROVIDER] NAME   start with this model; /model lists them
/mode NAME               start in this mode; /mode lists them
/permissions LEVEL       start at this level: ask, edits, plan, sandboxed or auto
Anything else is your task. Ctrl-D quits."""

MOST_OFFERED = 15
TITLE_WIDTH = 60
WHICH = "Which session? [1-{}, Enter for the last one, Ctrl-D exits] "


class FirstMessage:
    """Asks for the first message of a session that is not open yet."""

    def __init__(self, project: RunFolder, settings: Settings, default: ModelChoice) -> None:
        self._project = project
        self._settings = settings
        self._default = default

    def ask(self, draft: str = "") -> OpenTask:
        """Ask until there is a usable message. `draft` is text that was typed ahead."""
        mode, workspace = self._settings.mode, str(self._project.workspace)
        model = f"{self._default.provider} {harmless(self._default.name)}"
        where = f"{harmless(mode)} mode · {harmless(workspace)}"
        print(f"{NAME} {VERSION} · {model} · {where}")
        task = OpenTask(task_id="", text="", mode=mode)
        try:
            while not task.text.strip():
                line, draft = _read_line(draft), ""
                try:
                    task = self._apply(task, line)
                except SettingsError as error:
                    print(harmless(str(error)))
        except KeyboardInterrupt:
            print()
            raise
        return task

    def _apply(self, task: OpenTask, line: str) -> OpenTask:
        name, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        match name:
            case "/help":
                print(HELP)
            case "/model" if rest:
                return self._with_model(task, rest)
            case "/mode" if rest:
                self._project.check_mode(rest)
                print(f"Starting in {harmless(rest)} mode.")
                return replace(task, mode=rest)
            case "/approve" if rest in ("on", "off"):
                print("Auto-approve is on." if rest == "on" else "Auto-approve is off.")
                return replace(task, automatic=rest == "on", level=None)
            case "/permissions" if level := level_named(rest):
                print(f"Starting at level {level}: {level.sentence}.")
                return replace(task, automatic=None, level=level)
            case "/permissions":
                print(f"Use /permissions with one of: {', '.join(CYCLE)}.")
            case "/model":
                known = usable_models(self._settings, self._default, self._project.choose)
                print(harmless(list_models(known, task.model or self._default.model)))
            case "/mode":
                print(harmless(list_modes(self._project.names().modes, task.mode)))
            case "/approve":
                print("Use /approve on or /approve off.")
            case _:
                self._project.check_command(line)
                return replace(task, text=line)
        return task

    def _with_model(self, task: OpenTask, wanted: str) -> OpenTask:
        provider, _, model = wanted.rpartition(" ")
        provider = provider.strip() or self._default.provider
        try:
            self._project.choose(self._settings.with_model(provider, model))
        except SettingsError as error:
            print(f"{error} The model stays {harmless(task.model or self._default.name)}.")
            return task
        print(f"Starting with {harmless(model)}.")
        return replace(task, provider=provider, model=model)


def _read_line(draft: str) -> str:
    question = "What should I do? (Ctrl-D exits) "
    typed = read_line_blocking(sys.stdin.fileno(), question, " ".join(draft.split("\n")))
    if typed is None:
        print()
        raise click.exceptions.Exit(0)
    return typed


def pick_session(store: TaskStore, workspace: Path) -> str:
    """Ask which of the workspace's sessions to continue."""
    from rookery.storage.cli.session_listing import age, chosen_session, cut, one_line

    last = chosen_session(store, None, workspace)
    known = [each for each in store.list(str(workspace), hidden=False) if not each.parent]
    offered = known[:MOST_OFFERED]
    for number, each in enumerate(offered, 1):
        when = age(each.updated, datetime.now(UTC))
        print(harmless(f"{number:>3}  {when:>8}  {cut(one_line(each.title), TITLE_WIDTH)}"))
    while (typed := read_line_blocking(sys.stdin.fileno(), WHICH.format(len(offered)))) is not None:
        print()
        if not typed.strip():
            return last
        if typed.strip().isdecimal() and 1 <= int(typed) <= len(offered):
            return offered[int(typed) - 1].id
    print()
    raise click.exceptions.Exit(0)
