"""Which model servers run on this machine."""

from collections.abc import Mapping

import anyio
import httpx2
import msgspec
from msgspec import Struct

from rookery.providers.registry import BASE_URLS, LOCAL

LISTING_BYTES = 1024 * 1024


class LocalServer(Struct, frozen=True):
    provider: str
    base_url: str
    models: tuple[str, ...]


class _Model(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Model]


async def local_servers(
    seconds: float = 1.0, addresses: Mapping[str, str] | None = None
) -> list[LocalServer]:
    """Those that answer in time with a list of models; nobody there is no error.

    `addresses` are base URLs by provider.
    """
    wanted = addresses or {name: BASE_URLS[name] for name in LOCAL}
    found: dict[str, LocalServer] = {}

    async def look(http: httpx2.AsyncClient, provider: str, base_url: str) -> None:
        with anyio.move_on_after(seconds):
            models = await _models(http, base_url)
            if models is not None:
                found[provider] = LocalServer(provider, base_url, models)

    async with (
        httpx2.AsyncClient(verify=False, trust_env=False, timeout=None) as http,
        anyio.create_task_group() as group,
    ):
        for provider, base_url in wanted.items():
            group.start_soon(look, http, provider, base_url)
    return [found[provider] for provider in wanted if provider in found]


async def _models(http: httpx2.AsyncClient, base_url: str) -> tuple[str, ...] | None:
    """The ids of the models on offer; None if this is no model server."""
    text = b""
    try:
        async with http.stream("GET", f"{base_url.rstrip('/')}/models") as response:
            async for piece in response.aiter_bytes():
                text += piece
                if len(text) > LISTING_BYTES:
                    return None
        listing = msgspec.json.decode(text, type=_Listing)
    except (httpx2.RequestError, httpx2.InvalidURL, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return tuple(model.id for model in listing.data)
