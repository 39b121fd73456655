"""The search engine that the settings choose: part of the composition root."""

import os
from pathlib import Path

from rookery import NAME
from rookery.core.limits import Limits
from rookery.core.settings import Settings
from rookery.engine.ports.tool import WebSearchEngine
from rookery.providers.registry import SEARCH_KEYS
from rookery.storage.keys import find_key, source_of_key


class SearchChoice:
    """`problem` is what the chosen engine lacks, as a sentence."""

    def __init__(self, settings: Settings, keys_file: Path, limits: Limits) -> None:
        self._name = settings.web.search or ""
        self._url = settings.web.search_url or ""
        self._keys_file = keys_file
        self._limits = limits
        self.problem = self._missing()

    def _missing(self) -> str:
        if self._name == "searxng" and not self._url:
            return "Web search is off: set web.search_url to the address of your SearXNG."
        variable = SEARCH_KEYS.get(self._name)
        if not variable or source_of_key(
            self._name, environ=os.environ, variable=variable, keys_file=self._keys_file
        ):
            return ""
        return (
            f"Web search is off: no key for {self._name}. Set {variable}, or run: "
            f"{NAME} auth {self._name}"
        )

    def engine(self) -> WebSearchEngine:
        """Raises `SettingsError` if its key cannot be read."""
        from rookery.web.search_engines import HttpEngine

        key = find_key(
            self._name,
            flag=None,
            variable=SEARCH_KEYS.get(self._name),
            environ=os.environ,
            keys_file=self._keys_file,
        )
        secret = key.reveal() if key else ""
        return HttpEngine(self._name, url=self._url, key=secret, limits=self._limits)
