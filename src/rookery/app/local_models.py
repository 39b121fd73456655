"""Models on this machine that can be used without a key, and how to get a first model."""

import os
from collections.abc import Mapping
from functools import partial

import anyio
from msgspec import Struct

from rookery import NAME
from rookery.app.model_choice import own_address
from rookery.core.limits import NO_MODEL_CHOSEN
from rookery.core.settings import Settings
from rookery.providers.listings import local_addresses, local_servers
from rookery.providers.model_files import local_files
from rookery.providers.registry import how_to_get_a_model


class LocalModel(Struct, frozen=True):
    """A model that a server on this machine offers."""

    provider: str
    model: str


def running_models() -> list[LocalModel]:
    """The models of all local servers. Blocks for a moment."""
    servers = anyio.run(local_servers)
    return [LocalModel(each.provider, model) for each in servers for model in each.models]


def server_address(settings: Settings, provider: str) -> str:
    """The address of a provider's server on this machine; empty for other providers."""
    own = own_address(settings, provider, os.environ)
    return local_addresses(provider, own).get(provider, "")


def models_of(provider: str, address: str) -> list[str]:
    """The models of one local server. Blocks for a moment."""
    found = anyio.run(partial(local_servers, addresses={provider: address}))
    return [model for server in found for model in server.models]


async def no_model_help(environ: Mapping[str, str]) -> str:
    """Say how to get a model. Most new users without a terminal see this first."""
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
