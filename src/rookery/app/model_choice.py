"""Which model a run calls: the one the user asked for, the default of the first provider with a
key, or that of a mode. Its provider is opened when it is first needed, and again with a new key.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.facts import FellBack
from rookery.core.limits import CHOOSE_A_MODEL, Effort
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Hiding
from rookery.engine.ports.model import ModelInfo, Provider
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places, find_places
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
    SECRET_VARIABLES,
    URL_VARIABLES,
    OpenProvider,
    is_loopback,
    no_such_provider,
    open_provider,
)
from rookery.storage.keys import FLAG, Key, all_keys, ask_keyring_again, find_key, keys_version

if TYPE_CHECKING:
    from rookery.core.queries import KnownModel
    from rookery.providers.observed_server import ObservedServer

BARE_ADDRESS = 2
"""Slashes in an address without a path."""
PROVIDERS = NAMES
KEYS_OF_PROVIDERS = KEY_VARIABLES
"""The environment variable that holds the key of each provider."""
FOUND_BY_KEY = BY_KEY
"""Providers that are chosen by their key alone."""
Place: TypeAlias = "tuple[str, str, Effort]"
"""Provider, model and reasoning effort; empty names mean the default."""


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
        from rookery.app.listed_models import no_model_help

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


def supports_reasoning(settings: Settings, choice: ModelChoice) -> bool:
    info = facts_about(settings, choice.provider, choice.model, choice.base_url)
    return reasons(choice.provider, info)


def reasons(provider: str, info: ModelInfo) -> bool:
    return bool(info.thinking) or (provider in ("anthropic", "bedrock") and takes_budget(info))


class Models:
    """The open providers. The default one is opened first, others when a mode needs them."""

    def __init__(
        self,
        settings: Settings,
        default: ModelChoice,
        choose: Callable[[Settings], ModelChoice],
        added: Mapping[str, Callable[[str], OpenProvider]] | None = None,
        hide: Hiding | None = None,
    ) -> None:
        """`choose` finds the model and key for settings, `added` opens providers of a program or
        a plug-in, `hide` learns new keys. Raises `SettingsError` if the default model is not
        available."""
        self._added = added or {}
        self._settings = settings
        self._choose = choose
        self._default = default
        self._watched: list[ObservedServer] = []
        self._hide = hide or Hiding()
        self._keys_file = find_places(os.environ).keys_file
        self._keys = keys_version(self._keys_file)
        usual = "", "", settings.reasoning_effort
        self._choices: dict[Place, ModelChoice] = {usual: default}
        self._open: dict[Place, OpenProvider] = {usual: self._open_provider(default, usual[2])}
        self._replaced: list[OpenProvider] = []
        """Providers with a key that was replaced; a request may still use them."""
        self._notes: dict[ModelInfo, str] = {}

    def of(self, provider: str, model: str, effort: Effort | None = None) -> OpenProvider:
        """Return a provider; empty arguments mean the default. Raises `SettingsError` if it is
        not available."""
        if (version := keys_version(self._keys_file)) != self._keys:
            self._keys = version
            self._use_new_keys()
        place = provider, model, effort or self._settings.reasoning_effort
        if place not in self._open:
            choice = self._choice(provider, model)
            self._open[place] = self._open_provider(choice, place[2])
            self._choices[place] = choice
        return self._open[place]

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

    async def known(self, *, local: bool) -> "tuple[KnownModel, ...]":
        """List the default model, those of providers with a key, and those on this machine."""
        from rookery.app.listed_models import known_models

        return await known_models(self._settings, self._default, self._choose, local=local)

    async def aclose(self) -> None:
        for provider in (*self._open.values(), *self._replaced):
            await provider.aclose()

    def _use_new_keys(self) -> None:
        """Reopen providers whose key the user has stored anew, as after a rejected one."""
        ask_keyring_again()
        for place, old in list(self._choices.items()):
            if old.provider not in KEY_VARIABLES or (old.key and old.key.source == FLAG):
                continue
            with suppress(SettingsError):  # a key that was removed: the open provider keeps it
                wanted = settings_for(old.provider, old.model, self._settings, self._default)
                key = self._choose(wanted).key
                if key and (old.key is None or key.reveal() != old.key.reveal()):
                    self._reopen(place, replace(old, key=key), key)

    def _reopen(self, place: Place, choice: ModelChoice, key: Key) -> None:
        self._hide.add([key.reveal()])
        self._replaced.append(self._open[place])
        self._open[place], self._choices[place] = self._open_provider(choice, place[2]), choice
        if place[:2] == ("", ""):
            self._default = choice

    def _choice(self, provider: str, model: str) -> ModelChoice:
        provider = provider or self._default.provider
        if provider == self._default.provider and model:
            return replace(self._default, model=model)
        return self._choose(settings_for(provider, model, self._settings, self._default))

    async def learn(self, provider: Provider) -> None:
        """Ask a server on this machine what it knows of its model, the first time."""
        for watched in self._watched:
            if watched is provider:
                await watched.ask_window()

    def _open_provider(self, choice: ModelChoice, effort: Effort) -> OpenProvider:
        provider = self._open_bare(choice, effort)
        if choice.provider not in LOCAL:
            return provider
        from rookery.providers.observed_server import ObservedServer

        address = choice.base_url or BASE_URLS[choice.provider]
        key = choice.key.reveal() if choice.key else ""
        places = find_places(os.environ)
        self._watched.append(ObservedServer(provider, address, key, places.model_probes))
        return self._watched[-1]

    def _open_bare(self, choice: ModelChoice, effort: Effort) -> OpenProvider:
        if choice.provider in self._added:
            return self._added[choice.provider](choice.model)
        return open_provider(
            choice.provider,
            model=choice.model,
            base_url=choice.base_url,
            api_key=choice.key.reveal() if choice.key else "",
            key_source=f"from {choice.key.source}" if choice.key else "",
            limits=self._settings.as_limits(),
            described=self._settings.models.get(choice.model, {}),
            listed=listed_facts(choice.provider, choice.model, choice.base_url),
            effort=effort,
        )


def settings_for(provider: str, model: str, settings: Settings, default: ModelChoice) -> Settings:
    # a base_url in the settings belongs to the default provider
    base_url = default.base_url if provider == default.provider else None
    return replace(settings, provider=provider, model=model or None, base_url=base_url)


def known_secrets(choice: ModelChoice, places: Places) -> Iterator[str]:
    """Yield the secrets that must be removed from tool output."""
    if choice.key:
        yield choice.key.reveal()
    if choice.base_url and (password := urlsplit(choice.base_url).password):
        yield password
    yield from all_keys(os.environ, SECRET_VARIABLES, places.keys_file)
