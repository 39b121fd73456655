"""Which model a run calls: the one the user asked for, the default of the first provider with a
key, or that of a mode. Also which models of this machine can be used without a key.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct

from rookery import NAME
from rookery.core.limits import CHOOSE_A_MODEL, NO_MODEL_CHOSEN
from rookery.core.settings import Settings
from rookery.engine.ports.model import ModelInfo
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.providers.catalogue import find_model, is_known, known_models, takes_budget
from rookery.providers.registry import (
    BASE_URLS,
    BY_KEY,
    CREDENTIALS,
    DEFAULT_MODELS,
    KEY_VARIABLES,
    LOCAL,
    NAMES,
    OTHER_KEY_VARIABLES,
    OTHER_NAMES,
    URL_VARIABLES,
    how_to_get_a_model,
    is_loopback,
    no_such_provider,
)
from rookery.storage.keys import Key, find_key

if TYPE_CHECKING:
    pass

BARE_ADDRESS = 2
"""Slashes in an address without a path."""
PROVIDERS = NAMES
KEYS_OF_PROVIDERS = KEY_VARIABLES
"""The environment variable that holds the key of each provider."""
FOUND_BY_KEY = BY_KEY
"""Providers that are chosen by their key alone."""


class ModelChoice(Struct, frozen=True):
    """Which model to call, and how to reach it."""

    provider: str
    model: str
    base_url: str | None
    key: Key | None

    @property
    def name(self) -> str:
        """The model's name as shown to the user."""
        return Path(self.model).name if self.provider in ("local", "scripted") else self.model


def named_model(text: str) -> tuple[str, str]:
    """Split `provider:model`. A colon after anything else belongs to the name, as in qwen3:8b."""
    provider, _, model = text.partition(":")
    provider = OTHER_NAMES.get(provider, provider)
    return (provider, model) if model and provider in NAMES else ("", text)


class NoKey(SettingsError):
    """No model can be called, because there is no key."""


class NoModelNamed(SettingsError):
    """The provider has no usual model, and none was given."""


def choose_model(
    settings: Settings, environ: Mapping[str, str], keys_file: Path, given_key: str | None
) -> ModelChoice:
    """Choose provider, model and key. Raises `SettingsError` that says what to do."""
    if settings.provider:
        return _explicit_choice(settings, settings.provider, environ, keys_file, given_key)
    if given_key:
        raise SettingsError("Give --provider with --api-key.")
    choice = choice_without_flags(settings, environ, keys_file)
    if choice is None:
        raise NoKey(anyio.run(_no_model_help, environ))
    return choice


def choice_without_flags(
    settings: Settings, environ: Mapping[str, str], keys_file: Path
) -> ModelChoice | None:
    """Choose by the settings, or else by the first key found; None without a key."""
    if settings.provider:
        return _explicit_choice(settings, settings.provider, environ, keys_file, None)
    for provider in BY_KEY:
        if key := _key(provider, environ, keys_file, None):
            return _choice(settings, provider, environ, key)
    return None


def _explicit_choice(
    settings: Settings,
    provider: str,
    environ: Mapping[str, str],
    keys_file: Path,
    given_key: str | None,
) -> ModelChoice:
    if settings.plugins and provider not in NAMES:
        from rookery.app.plugins import load_plugins

        if provider in load_plugins(settings.plugins).providers:
            return ModelChoice(provider, settings.model or "default", None, None)
    provider = checked_provider(provider)
    key = _key(provider, environ, keys_file, given_key)
    variable = KEY_VARIABLES.get(provider)
    address = own_address(settings, provider, environ)
    if key is None and variable and not is_loopback(address or BASE_URLS[provider]):
        _require_credentials(provider, variable, environ)
    return _choice(settings, provider, environ, key)


def checked_provider(name: str) -> str:
    """The provider's own name. Raises `SettingsError` if there is none with this name."""
    provider = OTHER_NAMES.get(name, name)
    if provider not in NAMES:
        raise no_such_provider(name, (*NAMES, *OTHER_NAMES))
    return provider


def _require_credentials(provider: str, variable: str, environ: Mapping[str, str]) -> None:
    """Raises `NoKey` unless the provider can be called without a key."""
    missing = f"No key for {provider}. Set {variable}, or run: {NAME} auth {provider}"
    if provider not in CREDENTIALS:
        raise NoKey(missing)
    module = import_module(f"rookery.providers.{CREDENTIALS[provider]}")
    if not module.has_credentials(environ):
        raise NoKey(f"{missing}. {module.OTHER_WAYS}")


def _key(
    provider: str, environ: Mapping[str, str], keys_file: Path, given: str | None
) -> Key | None:
    """Find the key: from the flag, an environment variable of the provider, or the keys file."""
    variable = KEY_VARIABLES.get(provider)
    other = OTHER_KEY_VARIABLES.get(provider, "")
    if variable and not environ.get(variable) and environ.get(other):
        variable = other
    return find_key(provider, flag=given, variable=variable, environ=environ, keys_file=keys_file)


def own_address(settings: Settings, provider: str, environ: Mapping[str, str]) -> str | None:
    """Return the address of the provider's API, if it is not the default one."""
    found = environ.get(URL_VARIABLES.get(provider, ""), "").rstrip("/")
    # Roo's own variable comes without /v1, and people leave it out after a bare host
    if found and (provider == "roo" or found.count("/") == BARE_ADDRESS):
        ending = "/v1" if BASE_URLS[provider].endswith("/v1") else ""
        found = found.removesuffix(ending) + ending
    return settings.base_url or found or None


def _choice(
    settings: Settings, provider: str, environ: Mapping[str, str], key: Key | None
) -> ModelChoice:
    model = settings.model or DEFAULT_MODELS.get(provider)
    if model is None:
        if provider == "scripted":
            raise SettingsError("Give the script file with -m.")
        if provider == "local":
            from rookery.providers.model_files import found_in_words, local_files

            raise SettingsError(
                f"{CHOOSE_A_MODEL} local with -m. {found_in_words(local_files(environ))}"
            )
        raise NoModelNamed(f"{CHOOSE_A_MODEL} {provider} with -m{_which(settings, provider)}")
    return ModelChoice(provider, model, own_address(settings, provider, environ), key)


def _which(settings: Settings, provider: str) -> str:
    if provider == "azure":
        return ": the name of your deployment."
    address = f" --base-url {settings.base_url}" if settings.base_url else ""
    return f". To list them: {NAME} models {provider}{address}"


def facts_about(settings: Settings, provider: str, model: str, base_url: str | None) -> ModelInfo:
    """Facts from the settings, the last probe, the provider's list and `models.toml`."""
    listed = listed_facts(provider, model, base_url)
    return find_model(provider, model, settings.models.get(model, {}), listed)


def listed_facts(provider: str, model: str, base_url: str | None) -> Mapping[str, Any]:
    """Facts about a model from the provider's list and the last probe, by the fields of
    `ModelInfo`."""
    places = find_places(os.environ)
    if provider not in BASE_URLS:
        return {}
    url, facts = base_url or BASE_URLS[provider], {}
    if places.model_lists.exists():
        from rookery.providers.model_cache import listed_facts as facts_in

        facts = facts_in(places.model_lists, url, model)
    if (provider in LOCAL or not is_known(provider, model)) and places.model_probes.exists():
        from rookery.providers.model_cache import address_of, probed_facts

        facts = {**facts, **probed_facts(places.model_probes, address_of(url), model)}
    return facts


def assumption(settings: Settings, choice: ModelChoice) -> str:
    """The note on a model that neither the settings, a list nor `models.toml` describe: what is
    assumed. Empty for other models."""
    if choice.provider not in BASE_URLS or is_known(choice.provider, choice.model):
        return ""
    if settings.models.get(choice.model):
        return ""
    if "window" in listed_facts(choice.provider, choice.model, choice.base_url):
        return ""
    info = find_model(choice.provider, choice.model, {})
    price = ", unknown price" if info.input_price is None else ""
    near = next((name for name in known_models(choice.provider) if info.id in name), "")
    meant = f" (did you mean {near}?)" if near else ""
    return (
        f"Unknown model {info.id}{meant}: assuming a window of {info.window:,} tokens, "
        f"{'images' if info.images else 'no images'}{price}. Describe it with: "
        f"{NAME} models describe {quote(info.id)} window={info.window}"
    )


def listed_names(provider: str, base_url: str | None) -> Sequence[str]:
    """The models in the list that was fetched last."""
    file = find_places(os.environ).model_lists
    if not file.exists():
        return ()
    from rookery.providers.model_cache import address_of, read_lists

    known = read_lists(file).get(address_of(base_url or BASE_URLS[provider]))
    return [model.id for model in known.models] if known else ()


def supports_reasoning(settings: Settings, choice: ModelChoice) -> bool:
    info = facts_about(settings, choice.provider, choice.model, choice.base_url)
    return reasons(choice.provider, info)


def reasons(provider: str, info: ModelInfo) -> bool:
    return bool(info.thinking) or (provider in ("anthropic", "bedrock") and takes_budget(info))


class LocalModel(Struct, frozen=True):
    """A model that a server on this machine offers."""

    provider: str
    model: str


def running_models() -> list[LocalModel]:
    """The models of all local servers. Blocks for a moment."""
    from rookery.providers.listings import local_servers

    servers = anyio.run(local_servers)
    return [LocalModel(each.provider, model) for each in servers for model in each.models]


def server_address(settings: Settings, provider: str) -> str:
    """The address of a provider's server on this machine; empty for other providers."""
    from rookery.providers.listings import local_addresses

    own = own_address(settings, provider, os.environ)
    return local_addresses(provider, own).get(provider, "")


def models_of(provider: str, address: str) -> list[str]:
    """The models of one local server. Blocks for a moment."""
    from rookery.providers.listings import local_servers

    found = anyio.run(partial(local_servers, addresses={provider: address}))
    return [model for server in found for model in server.models]


async def _no_model_help(environ: Mapping[str, str]) -> str:
    """Say how to get a model. Most new users without a terminal see this first."""
    from rookery.providers.listings import local_servers
    from rookery.providers.model_files import local_files

    for server in await local_servers():
        if server.models:
            return (
                f"{NO_MODEL_CHOSEN}, but {server.provider} runs here. Use it with:\n"
                f'  {NAME} --provider {server.provider} -m {server.models[0]} "your task"'
            )
    for file in local_files(environ):
        return (
            f"{NO_MODEL_CHOSEN}, but there is a model file from {file.source}. Use it with:\n"
            f'  {NAME} --provider local -m {file.name} "your task"'
        )
    return (
        "No model available: no key is set and no local server offers a model. "
        f"Do one of these:\n{how_to_get_a_model()}"
    )
