"""Asks providers and local servers which models they offer.

Runs only when the user asks for it. All providers are asked at the same time, each with its own
time limit. If one fails, the reason is returned as a sentence and the others are unaffected.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.errors import SettingsError
from rookery.providers.http_client import tls_context
from rookery.providers.listing_shapes import (
    ListedModel,
    facts_in_use,
    read_list,
    running_in_ollama,
    shown_by_ollama,
    window_of_llama_cpp,
    window_set_in_ollama,
)
from rookery.providers.model_cache import address_of
from rookery.providers.registry import (
    BASE_URLS,
    LOCAL,
    PROVIDERS,
    is_encrypted,
    is_loopback,
    wire_module,
)
from rookery.providers.wire_format import beginning, decode_event, rows, table

if TYPE_CHECKING:
    import httpx2

LISTING_BYTES = 16 * 1024 * 1024
SECONDS = 10.0
LOCAL_SECONDS = 1.0
MOST_SHOWN = 100
"""How many models of Ollama are looked up one by one."""

_PATHS: Mapping[str, Callable[[str], str]] = {
    "anthropic": lambda base: f"{base.removesuffix('/v1')}/v1/models?limit=1000",
    "gemini": lambda base: f"{_root(base, '/openai', '/v1beta')}/v1beta/models?pageSize=1000",
    "github": lambda base: f"{_root(base, '/inference')}/catalog/models",
    "azure": lambda base: _azure(_root(base, "/openai/v1")),
    "xai": lambda base: f"{base}/language-models",
    "ollama": lambda base: f"{_root(base, '/v1')}/api/tags",
    "lmstudio": lambda base: f"{_root(base, '/v1')}/api/v0/models",
}
"""Addresses of lists. All other providers, and servers without the given one, use `/models`."""
_NO_LIST = {
    "bedrock": "its list is not asked for; "
    "`aws bedrock list-inference-profiles` prints the ids that -m takes",
    "vertex": "Google does not list the models of a project; -m takes the id of a Gemini or Claude "
    "model in the Model Garden",
}


class ListRequest(Struct, frozen=True, kw_only=True):
    provider: str
    base_url: str
    key: str = ""
    seconds: float = SECONDS

    def __repr__(self) -> str:
        return f"ListRequest({self.provider!r}, {address_of(self.base_url)!r})"


class ModelOffer(Struct, frozen=True, kw_only=True):
    """The models of one provider, and why its list could not be fetched."""

    provider: str
    base_url: str
    models: tuple[ListedModel, ...] = ()
    fetched: float | None = None
    """When the list was fetched; None for the models in `models.toml`."""
    failure: str = ""


class NoListing(Exception):
    """Why there is no list."""


async def ask_for_lists(requests: Sequence[ListRequest]) -> list[ModelOffer]:
    """What the providers offer now, in the order of the requests."""
    offers: dict[int, ModelOffer] = {}

    async def ask(place: int, request: ListRequest) -> None:
        offer = ModelOffer(provider=request.provider, base_url=request.base_url)
        try:
            with anyio.fail_after(request.seconds):
                models = await _listed(request)
            offers[place] = replace(offer, models=models, fetched=time.time())
        except NoListing as error:
            offers[place] = replace(offer, failure=str(error))
        except TimeoutError:
            offers[place] = replace(offer, failure=f"no answer within {request.seconds:g} seconds")

    async with anyio.create_task_group() as group:
        for place, request in enumerate(requests):
            group.start_soon(ask, place, request)
    return [offers[place] for place in range(len(requests))]


def local_addresses(provider: str, base_url: str | None) -> dict[str, str]:
    """The usual addresses of local servers; of the one in use, its own."""
    usual = {name: BASE_URLS[name] for name in LOCAL}
    own = base_url if provider in LOCAL and base_url and is_loopback(base_url) else None
    return usual | {provider: own} if own else usual


async def local_servers(
    seconds: float = LOCAL_SECONDS, addresses: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """The models of local servers that answer in time, by provider; no server is not an error.

    `addresses` are base URLs by provider.
    """
    wanted = addresses or {name: BASE_URLS[name] for name in LOCAL}
    found: dict[str, list[str]] = {}

    async def look(http: "httpx2.AsyncClient", provider: str, base_url: str) -> None:
        with anyio.move_on_after(seconds):
            try:
                models = await _fetched_list(http, f"{base_url.rstrip('/')}/models")
            except NoListing:
                return
            found[provider] = [model.id for model in models]

    async with _client("http://127.0.0.1", {}) as http, anyio.create_task_group() as group:
        for provider, base_url in wanted.items():
            group.start_soon(look, http, provider, base_url)
    return {provider: found[provider] for provider in wanted if provider in found}


async def loaded_facts(request: ListRequest, model: str) -> dict[str, Any]:
    """The context window with which a server on this machine runs a model, and the billions of its
    parameters, as far as it says so in time."""
    base = request.base_url.rstrip("/")
    root = _root(base, "/v1")
    asked: dict[str, Any]
    match request.provider:
        case "ollama":
            asked = {f"{root}/api/ps": None, f"{root}/api/show": {"model": model}}
        case "lmstudio":
            asked = {f"{root}/api/v0/models": None}
        case _:
            asked = {f"{base}/models": None, f"{root}/props": None}
    answers: dict[str, Any] = {}

    async def ask(http: "httpx2.AsyncClient", url: str, body: Any) -> None:
        answers[url] = await _if_any(http, url, body)

    with anyio.move_on_after(request.seconds):
        async with _client(base, _headers(request)) as http, anyio.create_task_group() as group:
            for url, body in asked.items():
                group.start_soon(ask, http, url, body)
    first, *other = (answers.get(url) for url in asked)
    if request.provider == "ollama":
        window = window_set_in_ollama(first, model, other[0])
        return {"window": window} if window else {}
    facts = facts_in_use(first, model)
    several = len(rows(table(first).get("data"))) > 1
    window = None if several or not other else window_of_llama_cpp(other[0])
    return {**facts, "window": window} if window else facts


async def _listed(request: ListRequest) -> tuple[ListedModel, ...]:
    if failure := _NO_LIST.get(request.provider):
        raise NoListing(failure)
    if "{" in request.base_url:
        raise NoListing("its address is not set")
    base = request.base_url.rstrip("/")
    usual = f"{base}/models"
    special = _PATHS.get(request.provider)
    async with _client(base, _headers(request)) as http:
        try:
            models = await _fetched_list(http, special(base) if special else usual)
        except NoListing:
            if special is None or request.provider in ("anthropic", "azure"):
                raise
            return await _fetched_list(http, usual)
        if request.provider == "ollama":
            return await _with_abilities(http, _root(base, "/v1"), models)
        if is_loopback(base) and len(models) == 1:
            return await _with_real_window(http, _root(base, "/v1"), models)
        return models


async def _with_abilities(
    http: "httpx2.AsyncClient", root: str, models: tuple[ListedModel, ...]
) -> tuple[ListedModel, ...]:
    """Ollama's models with their windows and abilities, as far as it answers."""
    running = running_in_ollama(await _if_any(http, f"{root}/api/ps"))
    known = {model.id: model for model in models}

    async def look(model: ListedModel) -> None:
        shown = await _if_any(http, f"{root}/api/show", {"model": model.id})
        known[model.id] = shown_by_ollama(model, shown, running.get(model.id))

    async with anyio.create_task_group() as group:
        for model in models[:MOST_SHOWN]:
            group.start_soon(look, model)
    return tuple(known.values())


async def _with_real_window(
    http: "httpx2.AsyncClient", root: str, models: tuple[ListedModel, ...]
) -> tuple[ListedModel, ...]:
    """llama.cpp often runs its model with a smaller window than it was trained for."""
    window = window_of_llama_cpp(await _if_any(http, f"{root}/props"))
    return tuple(replace(model, window=window or model.window) for model in models)


async def _if_any(http: "httpx2.AsyncClient", url: str, body: Any = None) -> Any:
    try:
        return await _fetched(http, url, body)
    except NoListing:
        return None


async def _fetched_list(http: "httpx2.AsyncClient", url: str) -> tuple[ListedModel, ...]:
    models = read_list(await _fetched(http, url))
    if models is None:
        raise NoListing("the answer is not a list of models")
    return models


async def _fetched(http: "httpx2.AsyncClient", url: str, body: Any = None) -> Any:
    import httpx2

    try:
        async with http.stream("GET" if body is None else "POST", url, json=body) as response:
            if response.status_code != 200:
                raise NoListing(_refused(response.status_code))
            text = await beginning(response.aiter_bytes(), LISTING_BYTES)
        if len(text) > LISTING_BYTES:
            raise NoListing(f"the list is larger than {LISTING_BYTES // 1024**2} MiB")
        return decode_event(text)
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        address = urlsplit(url).netloc.rpartition("@")[2]
        raise NoListing(f"{address} cannot be reached") from None
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        raise NoListing(f"the request failed ({type(error).__name__})") from None
    except ValueError:
        raise NoListing("the answer is not JSON") from None


def _refused(status: int) -> str:
    if status in (401, 403):
        return f"it rejected the key (status {status})"
    return f"it answered with status {status}"


def _client(base_url: str, headers: Mapping[str, str]) -> "httpx2.AsyncClient":
    from rookery.providers.http_by_proxy import client_of_environment

    try:
        return client_of_environment(
            verify=tls_context() if is_encrypted(base_url) else False,
            trust_env=not is_loopback(base_url),
            headers={**headers, "user-agent": f"{NAME}/{VERSION}"},
            timeout=None,
            follow_redirects=False,
        )
    except SettingsError as error:
        raise NoListing(str(error).rstrip(".")) from None


def _headers(request: ListRequest) -> dict[str, str]:
    row = PROVIDERS[request.provider]
    return {**wire_module(request.provider).headers(request.key), **row.headers}


def _azure(root: str) -> str:
    """The models of a resource, on the same surface as its chat completions."""
    version = os.environ.get("AZURE_OPENAI_API_VERSION", "").strip()
    dated = f"{root}/openai/models?api-version={quote(version, safe='')}"
    return dated if version else f"{root}/openai/v1/models"


def _root(base: str, *ends: str) -> str:
    for end in ends:
        base = base.removesuffix(end)
    return base
