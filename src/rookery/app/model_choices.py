"""Which models a run works with: one for most modes, and others where the user wants them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from rookery.core.queries import KnownModel
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.providers.registry import (
    KEY_VARIABLES,
    OpenProvider,
    find_model,
    known_models,
    open_provider,
)
from rookery.storage.keys import Key


class ModelChoice(Struct, frozen=True):
    """Which model to call, and how to reach it."""

    provider: str
    model: str
    base_url: str | None
    key: Key | None

    @property
    def name(self) -> str:
        """How a person would call the model."""
        return Path(self.model).name if self.provider == "scripted" else self.model


def usable_models(
    settings: Settings, usual: ModelChoice, choose: Callable[[Settings], ModelChoice]
) -> list[tuple[str, str]]:
    """The usual model and those known for the keys at hand, each behind its provider."""
    found = [(usual.provider, usual.model)]
    for provider in KEY_VARIABLES:
        with suppress(SettingsError):
            choose(_asking_for(provider, "any", settings, usual))
            found += [(provider, model) for model in known_models(provider)]
    return list(dict.fromkeys(found))


def _asking_for(provider: str, model: str, settings: Settings, usual: ModelChoice) -> Settings:
    # an address that was given is that of the usual provider
    base_url = usual.base_url if provider == usual.provider else None
    return msgspec.structs.replace(
        settings, provider=provider, model=model or None, base_url=base_url
    )


class Models:
    """The providers in use; others than the usual one are opened when a mode first needs them."""

    def __init__(
        self, settings: Settings, usual: ModelChoice, choose: Callable[[Settings], ModelChoice]
    ) -> None:
        """`choose` finds what settings ask for, and its key. Raises `SettingsError` if the usual
        model cannot be had."""
        self._settings = settings
        self._choose = choose
        self._usual = usual
        self._open: dict[tuple[str, str], OpenProvider] = {("", ""): self._opened(usual)}

    def of(self, provider: str, model: str) -> OpenProvider:
        """The usual one for what is left empty. Raises `SettingsError` if it cannot be had."""
        if (provider, model) not in self._open:
            self._open[provider, model] = self._opened(self._choice(provider, model))
        return self._open[provider, model]

    async def known(self, *, local: bool) -> tuple[KnownModel, ...]:
        """The usual model, those known for the keys at hand, and those of servers here."""
        found = usable_models(self._settings, self._usual, self._choose)
        if local:
            from rookery.providers.discovery import local_servers

            servers = await local_servers()
            found += [(server.provider, model) for server in servers for model in server.models]
        return tuple(self._described(*each) for each in dict.fromkeys(found))

    async def aclose(self) -> None:
        for provider in self._open.values():
            await provider.aclose()

    def _choice(self, provider: str, model: str) -> ModelChoice:
        provider = provider or self._usual.provider
        return self._choose(_asking_for(provider, model, self._settings, self._usual))

    def _described(self, provider: str, model: str) -> KnownModel:
        info = find_model(provider, model, self._settings.models.get(model, {}))
        return KnownModel(
            provider=provider,
            model=model,
            window=info.window,
            images=info.images,
            price_in=info.input_price,
            price_out=info.output_price,
        )

    def _opened(self, choice: ModelChoice) -> OpenProvider:
        return open_provider(
            choice.provider,
            model=choice.model,
            base_url=choice.base_url,
            api_key=choice.key.reveal() if choice.key else "",
            key_source=f"from {choice.key.source}" if choice.key else "",
            limits=self._settings.as_limits(),
            described=self._settings.models.get(choice.model, {}),
            effort=self._settings.reasoning_effort,
        )
