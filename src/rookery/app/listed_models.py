"""The models that a user can choose from: those of their keys, and those of this machine."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import anyio
from msgspec import Struct

from rookery import NAME
from rookery.app.model_choice import ModelChoice, facts_about, own_address, reasons, settings_for
from rookery.core.limits import NO_MODEL_CHOSEN
from rookery.core.queries import KnownModel
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.providers import catalogue
from rookery.providers.listings import local_addresses, local_servers
from rookery.providers.model_files import local_files
from rookery.providers.registry import BASE_URLS, CREDENTIALS, KEY_VARIABLES, how_to_get_a_model


async def known_models(
    settings: Settings,
    default: ModelChoice,
    choose: Callable[[Settings], ModelChoice],
    *,
    local: bool,
) -> tuple[KnownModel, ...]:
    """List the default model, those of providers with a key, and those on this machine."""
    found = usable_models(settings, default, choose)
    if local:
        addresses = local_addresses(default.provider, default.base_url)
        servers = await local_servers(addresses=addresses)
        found += [(name, model) for name, models in servers.items() for model in models]
        found += [("local", file.name) for file in local_files(os.environ)]
    return tuple(_described(settings, default, *each) for each in dict.fromkeys(found))


def _described(settings: Settings, default: ModelChoice, provider: str, model: str) -> KnownModel:
    base_url = settings.base_url if provider == default.provider else None
    info = facts_about(settings, provider, model, base_url)
    return KnownModel(
        provider=provider,
        model=model,
        window=info.window,
        images=info.images,
        reasons=reasons(provider, info),
        price_in=info.input_price,
        price_out=info.output_price,
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
            chosen = choose(settings_for(provider, "any", settings, default))
            listed = _listed_names(provider, chosen.base_url)
            found += [(provider, model) for model in (*catalogue.known_models(provider), *listed)]
    return list(dict.fromkeys(found))


def _listed_names(provider: str, base_url: str | None) -> Sequence[str]:
    """The models in the list that was fetched last."""
    file = find_places(os.environ).model_lists
    if not file.exists():
        return ()
    from rookery.providers.model_cache import address_of, read_lists

    known = read_lists(file).get(address_of(base_url or BASE_URLS[provider]))
    return [model.id for model in known.models] if known else ()


class LocalModel(Struct, frozen=True):
    """A model that a server on this machine offers."""

    provider: str
    model: str


def running_models() -> list[LocalModel]:
    """The models of all local servers. Blocks for a moment."""
    servers = anyio.run(local_servers)
    return [LocalModel(name, model) for name, models in servers.items() for model in models]


def server_address(settings: Settings, provider: str) -> str:
    """The address of a provider's server on this machine; empty for other providers."""
    own = own_address(settings, provider, os.environ)
    return local_addresses(provider, own).get(provider, "")


def models_of(provider: str, address: str) -> list[str]:
    """The models of one local server. Blocks for a moment."""
    found = anyio.run(partial(local_servers, addresses={provider: address}))
    return found.get(provider, [])


async def no_model_help(environ: Mapping[str, str]) -> str:
    """Say how to get a model. Most new users without a terminal see this first."""
    for provider, models in (await local_servers()).items():
        if models:
            return (
                f"{NO_MODEL_CHOSEN}, but {provider} runs here. Use it with:\n"
                f'  {NAME} --provider {provider} -m {models[0]} "your task"'
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
