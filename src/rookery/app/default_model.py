"""Which model to call: the one asked for, or what a key at hand suggests."""

from collections.abc import Mapping
from pathlib import Path

import anyio

from rookery import NAME
from rookery.app.model_choices import ModelChoice
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.providers.registry import (
    BASE_URLS,
    KEY_VARIABLES,
    LOCAL,
    NAMES,
    OTHER_KEY_VARIABLES,
    OTHER_NAMES,
    URL_VARIABLES,
    is_loopback,
)
from rookery.storage.keys import Key, find_key

USUAL_MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6.1-sol",
    "responses": "gpt-6.1-sol",
    "openrouter": "anthropic/claude-opus-5.5",
    "vercel-ai-gateway": "anthropic/claude-opus-5.5",
    "gemini": "gemini-2.5-pro",
    "roo": "anthropic/claude-opus-5.5",
}
BY_KEY = ("anthropic", "openai", "openrouter", "gemini", "vercel-ai-gateway")


class NoKey(SettingsError):
    """No model can be called, for want of a key."""


def choose_model(
    settings: Settings, environ: Mapping[str, str], keys_file: Path, given_key: str | None
) -> ModelChoice:
    """The provider, model and key to use. Raises `SettingsError` with what to do."""
    if settings.provider:
        return _asked_for(settings, settings.provider, environ, keys_file, given_key)
    if given_key:
        raise SettingsError("Say with --provider whose key --api-key is.")
    choice = choice_without_flags(settings, environ, keys_file)
    if choice is None:
        raise NoKey(anyio.run(_what_to_do))
    return choice


def choice_without_flags(
    settings: Settings, environ: Mapping[str, str], keys_file: Path
) -> ModelChoice | None:
    """What the settings ask for, else what the first key at hand suggests; None without a key."""
    if settings.provider:
        return _asked_for(settings, settings.provider, environ, keys_file, None)
    for provider in BY_KEY:
        if key := _key(provider, environ, keys_file, None):
            return _choice(settings, provider, environ, key)
    return None


def _asked_for(
    settings: Settings,
    provider: str,
    environ: Mapping[str, str],
    keys_file: Path,
    given_key: str | None,
) -> ModelChoice:
    provider = OTHER_NAMES.get(provider, provider)
    if provider not in NAMES:
        known = ", ".join((*NAMES, *OTHER_NAMES))
        raise SettingsError(f"There is no provider {provider!r}. There are: {known}.")
    key = _key(provider, environ, keys_file, given_key)
    variable = KEY_VARIABLES.get(provider)
    address = _address(settings, provider, environ)
    if key is None and variable and not is_loopback(address or BASE_URLS[provider]):
        raise NoKey(
            f"There is no key for {provider}. Set {variable}, or run: {NAME} auth {provider}"
        )
    return _choice(settings, provider, environ, key)


def _key(
    provider: str, environ: Mapping[str, str], keys_file: Path, given: str | None
) -> Key | None:
    """From the flag, the provider's variable or that of its other name, or the file."""
    variable = KEY_VARIABLES.get(provider)
    other = OTHER_KEY_VARIABLES.get(provider, "")
    if variable and not environ.get(variable) and environ.get(other):
        variable = other
    return find_key(provider, flag=given, variable=variable, environ=environ, keys_file=keys_file)


def _address(settings: Settings, provider: str, environ: Mapping[str, str]) -> str | None:
    """Where the provider is reached, if not at its own address."""
    found = environ.get(URL_VARIABLES.get(provider, ""), "").rstrip("/")
    # whoever sets the variable for its first reader leaves the version out
    found = f"{found.removesuffix('/v1')}/v1" if found else ""
    return settings.base_url or found or None


def _choice(
    settings: Settings, provider: str, environ: Mapping[str, str], key: Key | None
) -> ModelChoice:
    model = settings.model or USUAL_MODELS.get(provider)
    if model is None:
        if provider == "scripted":
            raise SettingsError("Name the file of the script with -m.")
        raise SettingsError(
            f"Name one of the models of {provider} with -m. {NAME} models shows what there is."
        )
    return ModelChoice(provider, model, _address(settings, provider, environ), key)


async def _what_to_do() -> str:
    """No model is at hand, which is how most people begin."""
    from rookery.providers.discovery import local_servers

    for server in await local_servers():
        if server.models:
            return (
                f"No model was chosen, but {server.provider} runs here. Use it with:\n"
                f'  {NAME} --provider {server.provider} -m {server.models[0]} "your task"'
            )
    return (
        "There is no model yet: no key is set and no local server answers. "
        f"Do one of these:\n{ways_to_a_model()}"
    )


def ways_to_a_model() -> str:
    others = ", ".join(KEY_VARIABLES[provider] for provider in BY_KEY[1:])
    return (
        f"  {NAME} auth anthropic   (asks for the key and keeps it; or {', '.join(BY_KEY[1:])})\n"
        f"  export ANTHROPIC_API_KEY=…   (or {others})\n"
        f"  start {' or '.join(LOCAL)} on its usual port, then: {NAME} models\n"
        f"  {NAME} demo   (needs no model)"
    )
