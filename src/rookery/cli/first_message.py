"""The first message, typed at a terminal, and what is chosen before it."""

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
from rookery.plain.keyboard import line_at_once
from rookery.protocol.client_commands import list_models, list_modes

HELP = """\
/model [PROVIDER] NAME   start with this model; /model lists them
/mode NAME               start in this mode; /mode lists them
/approve on, off         turn auto-approve on or off
Anything else is your task. Ctrl-D quits."""


class Checks(Struct, frozen=True, kw_only=True):
    """Raise `SettingsError` for an unknown model, mode or command."""

    model: Callable[[str, str], None]
    """Provider and model."""
    mode: Callable[[str], None]
    command: Callable[[str], None]
    modes: Callable[[], Sequence[str]]
    models: Callable[[], Sequence[tuple[str, str]]]
    """Each behind its provider."""


def ask_for_first_words(
    choice: ModelChoice, mode: str, workspace: str, checks: Checks, draft: str = ""
) -> OpenTask:
    """Print what is wrong and ask again until the input is usable. `draft` was typed before."""
    print(f"{NAME} {VERSION} · {choice.provider} {harmless(choice.name)} · ", end="")
    print(f"{harmless(mode)} mode · {harmless(workspace)}")
    words = OpenTask(task_id="", text="", mode=mode)
    try:
        while not words.text.strip():
            line, draft = _line(draft), ""
            words = _heard(words, line, choice, checks)
    except KeyboardInterrupt:
        print()
        raise
    return words


def _line(draft: str) -> str:
    question = "What should I do? (Ctrl-D exits) "
    typed = line_at_once(sys.stdin.fileno(), question, " ".join(draft.split("\n")))
    if typed is None:
        print()
        raise click.exceptions.Exit(0)
    return typed


def _heard(words: OpenTask, line: str, choice: ModelChoice, checks: Checks) -> OpenTask:
    try:
        return _next(words, line, choice, checks)
    except SettingsError as error:
        print(harmless(str(error)))
        return words


def _next(words: OpenTask, line: str, choice: ModelChoice, checks: Checks) -> OpenTask:
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match name:
        case "/help":
            print(HELP)
        case "/model" if rest:
            return _with_model(words, rest, choice, checks)
        case "/mode" if rest:
            checks.mode(rest)
            print(f"Starting in {harmless(rest)} mode.")
            return replace(words, mode=rest)
        case "/approve" if rest in ("on", "off"):
            print("Auto-approve is on." if rest == "on" else "Auto-approve is off.")
            return replace(words, automatic=rest == "on")
        case "/model":
            print(harmless(list_models(checks.models(), words.model or choice.model)))
        case "/mode":
            print(harmless(list_modes(checks.modes(), words.mode)))
        case "/approve":
            print("Use /approve on or /approve off.")
        case _:
            checks.command(line)
            return replace(words, text=line)
    return words


def _with_model(words: OpenTask, wanted: str, choice: ModelChoice, checks: Checks) -> OpenTask:
    provider, _, model = wanted.rpartition(" ")
    provider = provider.strip() or choice.provider
    try:
        checks.model(provider, model)
    except SettingsError as error:
        print(f"{error} The model stays {harmless(words.model or choice.name)}.")
        return words
    print(f"Starting with {harmless(model)}.")
    return replace(words, provider=provider, model=model)
