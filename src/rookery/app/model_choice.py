"""Which model a run calls: the one the user asked for, the default of the first provider with a
key, or that of a mode.

`choose_model` finds the model of a run; `Models` keeps the providers in use open.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec import Struct

from rookery import NAME
from rookery.core.facts import FellBack
from rookery.core.limits import CHOOSE_A_MODEL
from rookery.core.queries import KnownModel
from rookery.core.settings import Settings
from rookery.engine.ports.model import ModelInfo, Provider
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.providers.catalogue import find_model, is_known, known_models
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
    OpenProvider,
    is_loopback,
    no_such_provider,
    open_provider,
)
from rookery.storage.keys import Key, find_key

if TYPE_CHECKING:
    from rookery.providers.observed_server import ObservedServer

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


def usable_models(
    settings: Settings, default: ModelChoice, choose: Callable[[Settings], ModelChoice]
) -> list[tuple[str, str]]:
    """List the default model and the models of all providers with a key, as (provider, model).
    Credentials of a cloud are not opened for this: its models are listed if it is in use."""
    found = [(default.provider, default.model)]
    for provider in KEY_VARIABLES:
        if provider in CREDENTIALS and provider != default.provider:
            continue
        with suppress(SettingsError):
            chosen = choose(_settings_for(provider, "any", settings, default))
            listed = _listed_names(provider, chosen.base_url)
            found += [(provider, model) for model in (*known_models(provider), *listed)]
    return list(dict.fromkeys(found))


def _settings_for(provider: str, model: str, settings: Settings, default: ModelChoice) -> Settings:
    # a base_url in the settings belongs to the default provider
    base_url = default.base_url if provider == default.provider else None
    return msgspec.structs.replace(
        settings, provider=provider, model=model or None, base_url=base_url
    )


def named_model(text: str) -> tuple[str, str]:
    """Split `provider:model`. A colon after anything else belongs to the name, as in qwen3:8b."""
    provider, _, model = text.partition(":")
    provider = OTHER_NAMES.get(provider, provider)
    return (provider, model) if model and provider in NAMES else ("", text)


class Models:
    """The open providers. The default one is opened first, others when a mode needs them."""

    def __init__(
        self, settings: Settings, default: ModelChoice, choose: Callable[[Settings], ModelChoice]
    ) -> None:
        """`choose` finds the model and key for settings. Raises `SettingsError` if the default
        model is not available."""
        self._settings = settings
        self._choose = choose
        self._default = default
        self._watched: list[ObservedServer] = []
        self._open: dict[tuple[str, str], OpenProvider] = {("", ""): self._open_provider(default)}
        self._notes: dict[ModelInfo, str] = {}

    def of(self, provider: str, model: str) -> OpenProvider:
        """Return a provider; empty arguments mean the default. Raises `SettingsError` if it is
        not available."""
        if (provider, model) not in self._open:
            self._open[provider, model] = self._open_provider(self._choice(provider, model))
        return self._open[provider, model]

    def fall_back(self, place: int) -> FellBack:
        """Open the fallback at this place, counted from 1; the result says if it is available."""
        provider, model = named_model(self._settings.fallback[place - 1])
        try:
            self.of(provider, model)
        except SettingsError as error:
            return FellBack(place=place, provider=provider, model=model, problem=str(error))
        return FellBack(place=place, provider=provider, model=model)

    def note_on(self, model: ModelInfo) -> str:
        """The note on what is assumed of an unknown model; empty for others."""
        if model not in self._notes:
            choice = ModelChoice(model.provider, model.id, model.base_url or None, None)
            self._notes[model] = assumption(self._settings, choice)
        return self._notes[model]

    async def known(self, *, local: bool) -> tuple[KnownModel, ...]:
        """List the default model, those of providers with a key, and those on this machine."""
        found = usable_models(self._settings, self._default, self._choose)
        if local:
            from rookery.providers.listings import local_addresses, local_servers
            from rookery.providers.model_files import local_files

            addresses = local_addresses(self._default.provider, self._default.base_url)
            servers = await local_servers(addresses=addresses)
            found += [(server.provider, model) for server in servers for model in server.models]
            found += [("local", file.name) for file in local_files(os.environ)]
        return tuple(self._describe(*each) for each in dict.fromkeys(found))

    async def aclose(self) -> None:
        for provider in self._open.values():
            await provider.aclose()

    def _choice(self, provider: str, model: str) -> ModelChoice:
        provider = provider or self._default.provider
        if provider == self._default.provider and model:
            return msgspec.structs.replace(self._default, model=model)
        return self._choose(_settings_for(provider, model, self._settings, self._default))

    def _describe(self, provider: str, model: str) -> KnownModel:
        base_url = self._settings.base_url if provider == self._default.provider else None
        info = facts_about(self._settings, provider, model, base_url)
        return KnownModel(
            provider=provider,
            model=model,
            window=info.window,
            images=info.images,
            price_in=info.input_price,
            price_out=info.output_price,
        )

    async def learn(self, provider: Provider) -> None:
        """Ask a server on this machine what it knows of its model, the first time."""
        for watched in self._watched:
            if watched is provider:
                await watched.ask_window()

    def _open_provider(self, choice: ModelChoice) -> OpenProvider:
        provider = self._open_bare(choice)
        if choice.provider not in LOCAL:
            return provider
        from rookery.providers.observed_server import ObservedServer

        address = choice.base_url or BASE_URLS[choice.provider]
        key = choice.key.reveal() if choice.key else ""
        places = find_places(os.environ)
        self._watched.append(ObservedServer(provider, address, key, places.model_probes))
        return self._watched[-1]

    def _open_bare(self, choice: ModelChoice) -> OpenProvider:
        return open_provider(
            choice.provider,
            model=choice.model,
            base_url=choice.base_url,
            api_key=choice.key.reveal() if choice.key else "",
            key_source=f"from {choice.key.source}" if choice.key else "",
            limits=self._settings.as_limits(),
            described=self._settings.models.get(choice.model, {}),
            listed=listed_facts(choice.provider, choice.model, choice.base_url),
            effort=self._settings.reasoning_effort,
        )


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
        from rookery.app.local_models import no_model_help

        raise NoKey(anyio.run(no_model_help, environ))
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


def _listed_names(provider: str, base_url: str | None) -> Sequence[str]:
    """The models in the list that was fetched last."""
    file = find_places(os.environ).model_lists
    if not file.exists():
        return ()
    from rookery.providers.model_cache import address_of, read_lists

    known = read_lists(file).get(address_of(base_url or BASE_URLS[provider]))
    return [model.id for model in known.models] if known else ()


def supports_reasoning(settings: Settings, choice: ModelChoice) -> bool:
    from rookery.providers.catalogue import takes_budget

    info = facts_about(settings, choice.provider, choice.model, choice.base_url)
    return bool(info.thinking) or (
        choice.provider in ("anthropic", "bedrock") and takes_budget(info)
    )
