"""Providers by name, and what is known of their models.

Importing this package loads no provider: each is imported when it is opened.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from rookery.core.facts import Usage
from rookery.core.limits import CHOOSE_A_MODEL, Effort, Limits
from rookery.engine.ports.model import Chunk, ModelInfo, ModelRequest
from rookery.errors import SettingsError

if TYPE_CHECKING:
    import httpx2

    from rookery.providers.exchange import Endpoint

_FILE = Path(__file__).with_name("models.toml")
_MILLION = 1_000_000
_FAMILIES = {
    "responses": "openai",
    "lmstudio": "local",
    "vllm": "local",
    "ollama": "local",
    "vercel-ai-gateway": "openrouter",
    "roo": "openrouter",
}
_VERSION = re.compile(r"[-@]\d{8}|-\d{4}-\d\d-\d\d|-latest|:.+")
_FIELDS = {field.name for field in fields(ModelInfo)} - {"id", "provider", "base_url"}


def find_model(provider: str, model_id: str, described: Mapping[str, Any]) -> ModelInfo:
    """What is known of a model. What the user has `described` of it, by the names of
    `ModelInfo`'s fields, wins; a model that nobody knows gets cautious values."""
    if unknown := set(described) - _FIELDS:
        raise SettingsError(
            f"The description of {model_id} in the settings has unknown fields: "
            f"{', '.join(sorted(unknown))}. Available: {', '.join(sorted(_FIELDS))}."
        )
    known = {**_entry(provider, model_id), **described}
    usable = {name: value for name, value in known.items() if name in _FIELDS}
    return ModelInfo(id=model_id, provider=provider, **usable)


def known_models(provider: str) -> Sequence[str]:
    return [name for name in _family(provider) if name != "*"]


def takes_budget(model: ModelInfo) -> bool:
    """Whether it reasons only if it is told how many tokens to spend on that."""
    return bool(_entry(model.provider, model.id).get("budgeted"))


def cost(model: ModelInfo, usage: Usage) -> float | None:
    """Dollars for what was used; None if a price is unknown."""
    if model.input_price is None or model.output_price is None:
        return None
    dearer_in, dearer_out = _long_context(model, usage.tokens_in)
    reads = min(usage.cache_reads, usage.tokens_in)
    writes = min(usage.cache_writes, usage.tokens_in - reads)
    fresh = usage.tokens_in - reads - writes
    paid_in = (
        fresh * model.input_price
        + reads * _or_input(model.cache_read_price, model)
        + writes * _or_input(model.cache_write_price, model)
    )
    paid_out = usage.tokens_out * model.output_price
    return (paid_in * dearer_in + paid_out * dearer_out) / _MILLION


def priced(model: ModelInfo, usage: Usage, reported: object = None) -> Usage:
    """The usage with its cost: what the provider says it charged, else what its prices make."""
    if isinstance(reported, int | float) and 0 <= reported < _MILLION:
        return replace(usage, cost=float(reported))
    return replace(usage, cost=cost(model, usage))


def _or_input(price: float | None, model: ModelInfo) -> float:
    return price if price is not None else model.input_price or 0.0


def _long_context(model: ModelInfo, tokens_in: int) -> tuple[float, float]:
    """By how much a long prompt makes input and output dearer."""
    entry = _entry(model.provider, model.id)
    if entry.get("input_price") != model.input_price or tokens_in <= entry.get("long_above", 1e12):
        return 1.0, 1.0
    return entry["long_input"], entry["long_output"]


def _entry(provider: str, model_id: str) -> dict[str, Any]:
    """A model's row: by its whole name, else without its date or tag, else by its family."""
    family = _family(provider)
    named = family.get(model_id) or next(
        (
            row
            for name, row in sorted(family.items(), key=lambda item: -len(item[0]))
            if model_id.startswith(name) and _VERSION.fullmatch(model_id, len(name))
        ),
        {},
    )
    return {**family.get("*", {}), **named}


def _family(provider: str) -> Mapping[str, dict[str, Any]]:
    return _catalogue().get(_FAMILIES.get(provider, provider), {})


@cache
def _catalogue() -> dict[str, dict[str, dict[str, Any]]]:
    import tomllib

    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


class ProviderRow(Struct, frozen=True, kw_only=True):
    """A provider: where it is, and the module of its wire format."""

    url: str
    module: str = "openai"
    """In this package. It has `headers(key)` and `PROVIDER`, the class that is opened."""
    key: str = ""
    """The variable with its key, if it takes one."""
    other_key: str = ""
    """Where else a key is looked for."""
    url_variable: str = ""
    """Where its address is found, if not in a flag or the settings."""
    local: bool = False


PROVIDERS = {
    "anthropic": ProviderRow(
        url="https://api.anthropic.com", module="anthropic", key="ANTHROPIC_API_KEY"
    ),
    "openai": ProviderRow(url="https://api.openai.com/v1", key="OPENAI_API_KEY"),
    "responses": ProviderRow(
        url="https://api.openai.com/v1", module="responses", key="OPENAI_API_KEY"
    ),
    "openrouter": ProviderRow(url="https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY"),
    "ollama": ProviderRow(url="http://127.0.0.1:11434/v1", local=True),
    "lmstudio": ProviderRow(url="http://127.0.0.1:1234/v1", local=True),
    "vllm": ProviderRow(url="http://127.0.0.1:8000/v1", local=True),
    "gemini": ProviderRow(
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        key="GEMINI_API_KEY",
        other_key="GOOGLE_API_KEY",
    ),
    "vercel-ai-gateway": ProviderRow(
        url="https://ai-gateway.vercel.sh/v1", key="VERCEL_AI_GATEWAY_API_KEY"
    ),
    "roo": ProviderRow(
        url="https://api.roocode.com/proxy/v1",
        key="ROO_API_KEY",
        url_variable="ROO_CODE_PROVIDER_URL",
    ),
}
BASE_URLS = {name: row.url for name, row in PROVIDERS.items()}
KEY_VARIABLES = {name: row.key for name, row in PROVIDERS.items() if row.key}
OTHER_KEY_VARIABLES = {name: row.other_key for name, row in PROVIDERS.items() if row.other_key}
URL_VARIABLES = {name: row.url_variable for name, row in PROVIDERS.items() if row.url_variable}
LOCAL = tuple(name for name, row in PROVIDERS.items() if row.local)
NAMES = (*BASE_URLS, "scripted")
OTHER_NAMES = {"openai-native": "responses"}
"""What other programs call a provider."""

__all__ = [
    "BASE_URLS",
    "KEY_VARIABLES",
    "LOCAL",
    "NAMES",
    "OTHER_KEY_VARIABLES",
    "OTHER_NAMES",
    "URL_VARIABLES",
    "Effort",
    "OpenProvider",
    "find_model",
    "known_models",
    "open_provider",
]


class OpenProvider(Protocol):
    """A provider that holds a connection, to be closed by whoever opened it."""

    model: ModelInfo

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]: ...

    async def aclose(self) -> None: ...


def open_provider(
    name: str,
    *,
    model: str,
    base_url: str | None = None,
    api_key: str = "",
    limits: Limits | None = None,
    described: Mapping[str, Any] | None = None,
    key_source: str = "",
    effort: Effort = "unspecified",
) -> OpenProvider:
    """The provider of that name, ready to be asked. Nothing is sent yet.

    `effort` is how hard a model that reasons should do so; `key_source` says in error texts
    where the key comes from. Raises `SettingsError` for whatever cannot work.
    """
    if name not in NAMES:
        raise SettingsError(f"No such provider: {name!r}. Available: {', '.join(NAMES)}.")
    if not model:
        raise SettingsError(f"{CHOOSE_A_MODEL} {name} with --model.")
    info = replace(find_model(name, model, described or {}), base_url=base_url or "")
    if name == "scripted":
        from rookery.providers.scripted import FileProvider, read_script

        return FileProvider(read_script(Path(model)), info)
    url = _checked(base_url or BASE_URLS[name]).rstrip("/")
    if name == "anthropic":
        url = url.removesuffix("/v1")
    key = _usable(name, api_key.strip())
    return _connected(name, info, url, key, key_source, limits or Limits(), effort)


def _connected(
    name: str, model: ModelInfo, url: str, key: str, source: str, limits: Limits, effort: Effort
) -> OpenProvider:
    def endpoint(headers: dict[str, str]) -> "Endpoint":
        from rookery.providers.exchange import Endpoint
        from rookery.providers.listener import Addressee

        to = Addressee(
            provider=name,
            model=model.id,
            host=urlsplit(url).netloc.rpartition("@")[2],
            secret=key,
            key_source=source,
            known_models=known_models(name),
        )
        return Endpoint(url, to=to, headers=headers, limits=limits, local=name in LOCAL)

    module = import_module(f"rookery.providers.{PROVIDERS[name].module}")
    provider: OpenProvider = module.PROVIDER(endpoint(module.headers(key)), model, effort)
    return provider


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(
            f"{url!r} is not a base URL. A base URL begins with http:// or https:// and has a host."
        )
    return url


def _usable(name: str, key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise SettingsError(f"The key for {name} has characters that no key has. Copy it again.")
    return key


def is_loopback(url: str) -> bool:
    from ipaddress import ip_address

    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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
    import anyio
    import httpx2

    wanted = addresses or {name: BASE_URLS[name] for name in LOCAL}
    found: dict[str, LocalServer] = {}

    async def look(http: "httpx2.AsyncClient", provider: str, base_url: str) -> None:
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


async def _models(http: "httpx2.AsyncClient", base_url: str) -> tuple[str, ...] | None:
    """The ids of the models on offer; None if this is no model server."""
    import httpx2

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
