"""Which model a run calls: the one asked for, what a key at hand suggests, or that of a mode.

`choose_model` finds the usual one; `Models` keeps the providers in use open.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from rookery import NAME
from rookery.core.limits import CHOOSE_A_MODEL, NO_MODEL_CHOSEN
from rookery.core.queries import KnownModel
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
    OpenProvider,
    find_model,
    is_loopback,
    known_models,
    open_provider,
)
from rookery.storage.keys import Key, find_key

PROVIDERS = NAMES
OTHER_PROVIDER_NAMES = tuple(OTHER_NAMES)
"""What other programs call a provider."""
KEYS_OF_PROVIDERS = KEY_VARIABLES
"""The variable of the environment that holds the key of each provider."""


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
            from rookery.providers.registry import local_servers

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
        raise SettingsError("Give --provider with --api-key.")
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
        raise SettingsError(f"No such provider: {provider!r}. Available: {known}.")
    key = _key(provider, environ, keys_file, given_key)
    variable = KEY_VARIABLES.get(provider)
    address = _address(settings, provider, environ)
    if key is None and variable and not is_loopback(address or BASE_URLS[provider]):
        raise NoKey(f"No key for {provider}. Set {variable}, or run: {NAME} auth {provider}")
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
            raise SettingsError("Give the script file with -m.")
        raise SettingsError(f"{CHOOSE_A_MODEL} {provider} with -m. {NAME} models lists them.")
    return ModelChoice(provider, model, _address(settings, provider, environ), key)


async def _what_to_do() -> str:
    """No model is at hand, which is how most people begin."""
    from rookery.providers.registry import local_servers

    for server in await local_servers():
        if server.models:
            return (
                f"{NO_MODEL_CHOSEN}, but {server.provider} runs here. Use it with:\n"
                f'  {NAME} --provider {server.provider} -m {server.models[0]} "your task"'
            )
    return (
        "No model available: no key is set and no local server offers a model. "
        f"Do one of these:\n{ways_to_a_model()}"
    )


def ways_to_a_model() -> str:
    others = ", ".join(KEY_VARIABLES[provider] for provider in BY_KEY[1:])
    return (
        f"  {NAME} auth anthropic   (asks for the key and stores it; or {', '.join(BY_KEY[1:])})\n"
        f"  export ANTHROPIC_API_KEY=…   (or {others})\n"
        f"  start {' or '.join(LOCAL)} on its usual port, then: {NAME} models\n"
        f"  {NAME} demo   (needs no model)"
    )


def is_known_to_reason(settings: Settings, choice: ModelChoice) -> bool:
    from rookery.providers.registry import takes_budget

    info = find_model(choice.provider, choice.model, settings.models.get(choice.model, {}))
    return bool(info.thinking) or (choice.provider == "anthropic" and takes_budget(info))
