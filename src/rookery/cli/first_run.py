"""What is settled before a session starts: a model, then whether the folder is trusted."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rookery import NAME
from rookery.app.model_choice import ModelChoice, NoKey, NoModelNamed, choose_model
from rookery.cli.command_line import between_words
from rookery.cli.options import FrontEnd, Options
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError, StorageError, ToolError
from rookery.permissions.trust import TrustStore, never_trusted
from rookery.platform.user_folders import Places

if TYPE_CHECKING:
    from rookery.app.listed_models import LocalModel

MOST_LOCAL = 3
CHOOSE = f"No model is set up yet. Choose one. To look around without one: {NAME} demo"
HOW_APPROVALS_WORK = f"""\
Before it changes a file or runs a command that does more than read, it asks.
Answer y, n or a (always), or type what to do instead. /undo undoes a change.
Commands run in a sandbox if this machine has one. To check: {NAME} doctor"""


def find_model(
    settings: Settings, options: Options, places: Places
) -> tuple[Settings, ModelChoice]:
    """Choose the model of a run. If there is none, a user at a terminal is asked, and the answer
    is stored. Raises `SettingsError` elsewhere, and if they leave."""
    given = options.api_key
    try:
        return settings, choose_model(settings, os.environ, places.keys_file, given)
    except NoModelNamed as error:
        settings = _with_local_model(settings, error)
    except NoKey as error:
        if not options.interactive or options.once:
            raise
        settings = _asked_model(settings, places, error)
    return settings, choose_model(settings, os.environ, places.keys_file, given)


def _asked_model(settings: Settings, places: Places, error: NoKey) -> Settings:
    """Ask for a key, a sign-in or a local model. Raises the error if the user leaves."""
    from rookery.app.listed_models import LocalModel, running_models
    from rookery.app.model_choice import FOUND_BY_KEY
    from rookery.providers.cli.auth_command import ask_and_store_key

    chosen: str | LocalModel = settings.provider or ""
    print(harmless(str(error)) if chosen else CHOOSE)
    try:
        local = [] if chosen else running_models()[:MOST_LOCAL]
        while True:
            chosen = settings.provider or _offered(local)
            try:
                if isinstance(chosen, str):
                    ask_and_store_key(chosen, places.keys_file)
                break
            except SettingsError as problem:  # a key that cannot be one, or a sign-in that failed
                print(between_words(harmless(str(problem)), sys.stdout))
    except EOFError:
        print()
        raise error from None
    if isinstance(chosen, LocalModel):
        settings = settings.with_model(chosen.provider, chosen.model)
        _keep(places.settings_file, provider=chosen.provider, model=chosen.model)
    else:
        if not settings.provider and chosen not in FOUND_BY_KEY:
            _keep(places.settings_file, provider=chosen)
        settings = replace(settings, provider=chosen)
    print(f"\n{HOW_APPROVALS_WORK}\n")
    return settings


def _offered(local: "list[LocalModel]") -> "str | LocalModel":
    """Let the user choose a local model or a provider. Raises `EOFError` if they leave."""
    from rookery.app.model_choice import KEYS_OF_PROVIDERS
    from rookery.providers.cli.auth_command import COMMON, SIGN_IN, known_provider, numbered

    rows = [f"{each.provider} {each.model}, which runs on this machine" for each in local]
    rows += [
        f"{name}: sign in with your browser, or enter a key"
        if name == SIGN_IN
        else f"{name}: enter a key"
        for name in COMMON
    ]
    for number, row in enumerate(rows, 1):
        print(harmless(f"{number:>3}  {row}"))
    while True:
        typed = input("Which? [number, name of another provider, or Ctrl-D to leave] ").strip()
        try:
            if found := numbered(typed, rows):
                at = rows.index(found)
                return local[at] if at < len(local) else COMMON[at - len(local)]
            return known_provider(typed, KEYS_OF_PROVIDERS)
        except SettingsError as error:
            print(between_words(harmless(str(error)), sys.stdout))


def _keep(file: Path, **values: str) -> None:
    """Make a provider or a model the default."""
    from rookery.storage.settings_edits import change_settings, with_value

    for name, value in values.items():
        change_settings(
            file, partial(with_value, key=(name,), value=value, file=file), shared=False
        )
    stored = harmless(f"{' '.join(values.values())} is now the default, in {file}.")
    print(between_words(stored, sys.stdout))


def _with_local_model(settings: Settings, error: NoModelNamed) -> Settings:
    """Use the only model of a local server. Raises the error, with the models, if there are
    several."""
    from rookery.app.listed_models import models_of, server_address

    provider = settings.provider or ""
    if not (address := server_address(settings, provider)):
        raise error
    match models_of(provider, address):
        case []:
            raise SettingsError(
                f"Choose a model for {provider} with -m. Its server does not answer at {address} "
                f"or has no model: start it, then list them with {NAME} models {provider}"
            )
        case [only]:
            return settings.with_model(provider, only)
        case several:
            raise SettingsError(f"Choose a model for {provider} with -m: {', '.join(several)}.")


class Trust(Enum):
    YES = "trusted"
    NO = "the user said no"
    UNKNOWN = "the user was not asked"


def find_trust(options: Options, places: Places, keep: Callable[[str], None]) -> Trust:
    """Find out whether the folder is trusted; a user at the terminal is asked.
    `keep` takes text typed before the question, if it can be used."""
    store = TrustStore(places.trust_file)
    if options.trust:
        from rookery.app.project_tools import agree_to_servers, agree_to_tools

        agree_to_servers(options.workspace, only_new=True)
        with suppress(StorageError, ToolError):  # the run reports which are not offered
            agree_to_tools(options.workspace, first_only=True)
    if options.trust or store.trusts(options.workspace):
        return Trust.YES
    acts = options.level is Level.AUTO
    if options.interactive and not (acts and never_trusted(options.workspace)):
        from rookery.permissions.cli import ask_trust

        out = sys.stderr if options.once else sys.stdout
        has_prompt = options.prompt_text or options.words or options.prompt_file or options.resumes
        usable = options.front_end is FrontEnd.SCREEN or not has_prompt
        trusted = ask_trust(store, options.workspace, out, keep if usable else None)
        return Trust.YES if trusted else Trust.NO
    if store.problem:
        note(store.problem)
    return Trust.UNKNOWN


def may_act_anyway(options: Options, trust: Trust) -> bool:
    """Whether an untrusted folder may be changed in this run: with -y, or if a program drives us
    over the control stream. A user's "no" overrides every flag."""
    acts = options.level is Level.AUTO or options.stdin_prompt_stream
    return trust is Trust.UNKNOWN and acts


def trust_note(options: Options, trust: Trust, *, acts_anyway: bool) -> str:
    if options.trust and not options.interactive:
        return "--trust: the folder is trusted for this run."
    if trust is not Trust.UNKNOWN:
        return ""
    if acts_anyway:
        return "The folder is not trusted. -y allows changes and commands for this run."
    return (
        "The folder is not trusted, so it is read-only. To allow changes and commands, use "
        f"--trust for one run, or trust it: {NAME} trust"
    )


def note(sentence: str) -> None:
    print(between_words(f"note: {harmless(sentence)}", sys.stderr), file=sys.stderr)
