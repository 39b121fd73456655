"""The search engine that the settings choose."""

import os
from pathlib import Path

from rookery import NAME
from rookery.app.model_choice import ModelChoice
from rookery.core.limits import Limits
from rookery.core.settings import Settings
from rookery.engine.ports.tool import WebSearchEngine
from rookery.providers.registry import SEARCH_KEYS, SEARCHING, address_of_provider
from rookery.storage.keys import find_key, source_of_key

OWN_SEARCH = "provider"


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
