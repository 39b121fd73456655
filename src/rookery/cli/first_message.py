"""The prompt for the first message on a plain terminal, and the commands that work before it."""

import sys
from collections.abc import Callable, Sequence

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.app.model_choice import ModelChoice
from rookery.core.commands import OpenTask
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.plain.keyboard import read_line_blocking
from rookery.protocol.client_commands import list_models, list_modes

HELP = """\
/model [PROVIDER] NAME   start with this model; /model lists them
/mode NAME               start in this mode; /mode lists them
/approve on, off         turn auto-approve on or off
Anything else is your task. Ctrl-D quits."""


class Checks(Struct, frozen=True, kw_only=True):
    """Raise `SettingsError` for an unknown model, mode or command."""

    model: Callable[[str, str], None]
    """Takes provider and model."""
    mode: Callable[[str], None]
    command: Callable[[str], None]
    modes: Callable[[], Sequence[str]]
    models: Callable[[], Sequence[tuple[str, str]]]
    """Lists (provider, model)."""


def ask_first_message(
    choice: ModelChoice, mode: str, workspace: str, checks: Checks, draft: str = ""
) -> OpenTask:
    """Ask until there is a usable message. `draft` is text that was typed ahead."""
    print(f"{NAME} {VERSION} · {choice.provider} {harmless(choice.name)} · ", end="")
    print(f"{harmless(mode)} mode · {harmless(workspace)}")
    task = OpenTask(task_id="", text="", mode=mode)
    try:
        while not task.text.strip():
            line, draft = _read_line(draft), ""
            task = _try_line(task, line, choice, checks)
    except KeyboardInterrupt:
        print()
        raise
    return task


def _read_line(draft: str) -> str:
    question = "What should I do? (Ctrl-D exits) "
    typed = read_line_blocking(sys.stdin.fileno(), question, " ".join(draft.split("\n")))
    if typed is None:
        print()
        raise click.exceptions.Exit(0)
    return typed


def _try_line(task: OpenTask, line: str, choice: ModelChoice, checks: Checks) -> OpenTask:
    try:
        return _apply(task, line, choice, checks)
    except SettingsError as error:
        print(harmless(str(error)))
        return task


def _apply(task: OpenTask, line: str, choice: ModelChoice, checks: Checks) -> OpenTask:
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match name:
        case "/help":
            print(HELP)
        case "/model" if rest:
            return _with_model(task, rest, choice, checks)
        case "/mode" if rest:
            checks.mode(rest)
            print(f"Starting in {harmless(rest)} mode.")
            return replace(task, mode=rest)
        case "/approve" if rest in ("on", "off"):
            print("Auto-approve is on." if rest == "on" else "Auto-approve is off.")
            return replace(task, automatic=rest == "on")
        case "/model":
            print(harmless(list_models(checks.models(), task.model or choice.model)))
        case "/mode":
            print(harmless(list_modes(checks.modes(), task.mode)))
        case "/approve":
            print("Use /approve on or /approve off.")
        case _:
            checks.command(line)
            return replace(task, text=line)
    return task


def _with_model(task: OpenTask, wanted: str, choice: ModelChoice, checks: Checks) -> OpenTask:
    provider, _, model = wanted.rpartition(" ")
    provider = provider.strip() or choice.provider
    try:
        checks.model(provider, model)
    except SettingsError as error:
        print(f"{error} The model stays {harmless(task.model or choice.name)}.")
        return task
    print(f"Starting with {harmless(model)}.")
    return replace(task, provider=provider, model=model)
