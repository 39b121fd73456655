"""`rookery models`: which models are known here, and which one a task goes to."""

import json
import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import click
from msgspec import to_builtins

from rookery import NAME
from rookery.app.model_choice import ModelChoice, choice_without_flags, ways_to_a_model
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.providers.registry import KEY_VARIABLES, OTHER_KEY_VARIABLES, find_model, known_models
from rookery.storage.keys import source_of_key
from rookery.storage.settings_files import find_settings


@click.command()
@click.option("--format", "form", type=click.Choice(["json", "text"]), default="text")
def command(form: str) -> int:
    """List the models of the providers you have a key for and of servers on this machine. The
    default model is marked."""
    from rookery.providers.registry import local_servers

    places = find_places(os.environ)
    settings = find_settings(places.settings_file, None, os.environ, {}).settings
    offers = models_by_key(os.environ, places.keys_file)
    local = anyio.run(local_servers)
    offers |= {server.provider: list(server.models) for server in local}
    default, trouble = None, ""
    try:
        default = choice_without_flags(settings, os.environ, places.keys_file)
    except SettingsError as error:
        trouble = str(error)
    if form == "json":
        print(json.dumps({"models": offers, "default": _named(default)}))
    else:
        print(harmless(_text(offers, default, trouble)))
    return 0


def models_by_key(environ: Mapping[str, str], keys_file: Path) -> dict[str, list[str]]:
    """The models known for each provider that there is a key for. No keyring is asked."""
    return {
        provider: list(known_models(provider))
        for provider in KEY_VARIABLES
        if source_of_key(
            provider, variable=key_variable(provider, environ), environ=environ, keys_file=keys_file
        )
    }


def key_variable(provider: str, environ: Mapping[str, str]) -> str:
    """The variable that a provider's key is taken from."""
    usual, other = KEY_VARIABLES[provider], OTHER_KEY_VARIABLES.get(provider, "")
    return other if environ.get(other) and not environ.get(usual) else usual


def described_models(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What is known of each model that could be called, by its id."""
    from rookery.providers.registry import local_servers

    places = find_places(environ)
    settings = find_settings(places.settings_file, None, environ, {}).settings
    offers = models_by_key(environ, places.keys_file)
    offers |= {server.provider: list(server.models) for server in anyio.run(local_servers)}
    return {
        model: to_builtins(find_model(provider, model, settings.models.get(model, {})))
        for provider, models in offers.items()
        for model in models
    }


def _named(choice: ModelChoice | None) -> dict[str, str] | None:
    return {"provider": choice.provider, "model": choice.model} if choice else None


def _text(offers: Mapping[str, list[str]], default: ModelChoice | None, trouble: str) -> str:
    offered = [(provider, model) for provider, models in offers.items() for model in models]
    usual = [(default.provider, default.model)] if default else []
    rows = dict.fromkeys(chain((row for row in usual if row not in offered), offered))
    if not rows:
        return trouble or f"No model is at hand. Do one of these:\n{ways_to_a_model()}"
    lines = ["\t".join([*row, *(["default"] if row in usual else [])]) for row in rows]
    provider, model = next(iter(usual or rows))
    return "\n".join(
        [
            *lines,
            "",
            (
                "Models of the providers you have a key for, and of servers on this "
                "machine. -m accepts others too."
            ),
            *([f"note: {trouble}"] if trouble else []),
            f'To use one: {NAME} --provider {provider} -m {model} "your task"',
        ]
    )
