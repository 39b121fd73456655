"""Which models a run works with: one for most modes, and others where the user wants them."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from rookery.core.modes import Mode
from rookery.core.values import record
from rookery.errors import SettingsError
from rookery.providers import OpenProvider, open_provider
from rookery.settings import Settings
from rookery.storage.keys import Key


@record
class ModelChoice:
    """Which model to call, and how to reach it."""

    provider: str
    model: str
    base_url: str | None
    key: Key | None

    @property
    def name(self) -> str:
        """How a person would call the model."""
        return Path(self.model).name if self.provider == "scripted" else self.model


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

    def of(self, mode: Mode) -> OpenProvider:
        """Raises `SettingsError` if the mode wants a model that cannot be had."""
        if (mode.provider, mode.model) not in self._open:
            self._open[mode.provider, mode.model] = self._opened(self._choice(mode))
        return self._open[mode.provider, mode.model]

    async def aclose(self) -> None:
        for provider in self._open.values():
            await provider.aclose()

    def _choice(self, mode: Mode) -> ModelChoice:
        wanted = msgspec.structs.replace(
            self._settings,
            provider=mode.provider or self._usual.provider,
            model=mode.model or None,
            base_url=None if mode.provider else self._usual.base_url,
        )
        try:
            return self._choose(wanted)
        except SettingsError as error:
            raise SettingsError(f"Mode {mode.slug} wants another model. {error}") from error

    def _opened(self, choice: ModelChoice) -> OpenProvider:
        return open_provider(
            choice.provider,
            model=choice.model,
            base_url=choice.base_url,
            api_key=choice.key.reveal() if choice.key else "",
            key_source=f"from {choice.key.source}" if choice.key else "",
            limits=self._settings.as_limits(),
            described=self._settings.models.get(choice.model, {}),
        )
