"""The providers of a host, each opened when it is first needed, and again with a new key. The
search engine that the settings choose."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import msgspec

from rookery.app.model_choice import (
    ModelChoice,
    assumption,
    facts_about,
    listed_facts,
    listed_names,
    named_model,
    reasons,
)
from rookery.core.facts import FellBack
from rookery.core.limits import Effort
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Hiding
from rookery.engine.ports.model import ModelInfo, Provider
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places, find_places
from rookery.providers.catalogue import known_models
from rookery.providers.registry import (
    BASE_URLS,
    CREDENTIALS,
    KEY_VARIABLES,
    LOCAL,
    SECRET_VARIABLES,
    OpenProvider,
    open_provider,
)
from rookery.storage.keys import FLAG, Key, all_keys, ask_keyring_again, keys_version

if TYPE_CHECKING:
    from rookery.core.queries import KnownModel
    from rookery.providers.observed_server import ObservedServer
from pathlib import Path

from rookery import NAME
from rookery.core.limits import Limits
from rookery.engine.ports.tool import WebSearchEngine
from rookery.providers.registry import SEARCH_KEYS, SEARCHING, address_of_provider
from rookery.storage.keys import find_key, source_of_key

OWN_SEARCH = "provider"
Place: TypeAlias = "tuple[str, str, Effort]"
"""Provider, model and reasoning effort; empty names mean the default."""


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
        for provider in (*self._open.values(), *self._replaced):
            await provider.aclose()

    def _use_new_keys(self) -> None:
        """Reopen providers whose key the user has stored anew, as after a rejected one."""
        ask_keyring_again()
        for place, old in list(self._choices.items()):
            if old.provider not in KEY_VARIABLES or (old.key and old.key.source == FLAG):
                continue
            with suppress(SettingsError):  # a key that was removed: the open provider keeps it
                wanted = _settings_for(old.provider, old.model, self._settings, self._default)
                key = self._choose(wanted).key
                if key and (old.key is None or key.reveal() != old.key.reveal()):
                    self._reopen(place, msgspec.structs.replace(old, key=key), key)

    def _reopen(self, place: Place, choice: ModelChoice, key: Key) -> None:
        self._hide.add([key.reveal()])
        self._replaced.append(self._open[place])
        self._open[place], self._choices[place] = self._open_provider(choice, place[2]), choice
        if place[:2] == ("", ""):
            self._default = choice

    def _choice(self, provider: str, model: str) -> ModelChoice:
        provider = provider or self._default.provider
        if provider == self._default.provider and model:
            return msgspec.structs.replace(self._default, model=model)
        return self._choose(_settings_for(provider, model, self._settings, self._default))

    def _describe(self, provider: str, model: str) -> "KnownModel":
        from rookery.core.queries import KnownModel

        base_url = self._settings.base_url if provider == self._default.provider else None
        info = facts_about(self._settings, provider, model, base_url)
        return KnownModel(
            provider=provider,
            model=model,
            window=info.window,
            images=info.images,
            reasons=reasons(provider, info),
            price_in=info.input_price,
            price_out=info.output_price,
        )

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
            listed = listed_names(provider, chosen.base_url)
            found += [(provider, model) for model in (*known_models(provider), *listed)]
    return list(dict.fromkeys(found))


def _settings_for(provider: str, model: str, settings: Settings, default: ModelChoice) -> Settings:
    # a base_url in the settings belongs to the default provider
    base_url = default.base_url if provider == default.provider else None
    return msgspec.structs.replace(
        settings, provider=provider, model=model or None, base_url=base_url
    )


def known_secrets(choice: ModelChoice, places: Places) -> Iterator[str]:
    """Yield the secrets that must be removed from tool output."""
    if choice.key:
        yield choice.key.reveal()
    if choice.base_url and (password := urlsplit(choice.base_url).password):
        yield password
    yield from all_keys(os.environ, SECRET_VARIABLES, places.keys_file)


class SearchChoice:
    """`name` is the engine, empty if there is none; `problem` is what it lacks, as a sentence."""

    def __init__(
        self, settings: Settings, model: ModelChoice, keys_file: Path, limits: Limits
    ) -> None:
        self._url = settings.web.search_url or ""
        self._model = model
        self._keys_file = keys_file
        self._limits = limits
        self.name = _chosen(settings, model)
        self.problem = self._missing()

    def _missing(self) -> str:
        if self.name == OWN_SEARCH and self._model.provider not in SEARCHING:
            return f"Web search is off: {self._model.provider} has no search of its own."
        if self.name == "searxng" and not self._url:
            return "Web search is off: set web.search_url to the address of your SearXNG."
        variable = SEARCH_KEYS.get(self.name)
        if not variable or source_of_key(
            self.name, environ=os.environ, variable=variable, keys_file=self._keys_file
        ):
            return ""
        return (
            f"Web search is off: no key for {self.name}. Set {variable}, or run: "
            f"{NAME} auth {self.name}"
        )

    def engine(self) -> WebSearchEngine:
        """Raises `SettingsError` if its key cannot be read."""
        return self._of_provider() if self.name == OWN_SEARCH else self._by_http()

    def _of_provider(self) -> WebSearchEngine:
        from rookery.providers.provider_search import ProviderSearch

        model = self._model
        return ProviderSearch(
            model.provider,
            model=model.model,
            url=address_of_provider(model.provider, model.base_url),
            key=model.key.reveal() if model.key else "",
            limits=self._limits,
        )

    def _by_http(self) -> WebSearchEngine:
        from rookery.web.search_engines import HttpEngine

        key = find_key(
            self.name,
            flag=None,
            variable=SEARCH_KEYS.get(self.name),
            environ=os.environ,
            keys_file=self._keys_file,
        )
        secret = key.reveal() if key else ""
        return HttpEngine(self.name, url=self._url, key=secret, limits=self._limits)


def _chosen(settings: Settings, model: ModelChoice) -> str:
    """The engine of the settings, or the provider's own at its usual address."""
    if settings.web.search:
        return "" if settings.web.search == "off" else settings.web.search
    return OWN_SEARCH if model.provider in SEARCHING and not model.base_url else ""
