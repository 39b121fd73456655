"""Providers by name, and what is known of their models.

Importing this package loads no provider: each is imported when it is opened.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from msgspec.structs import replace

from rookery.core.limits import Effort, Limits
from rookery.engine.ports.model import Chunk, ModelInfo, ModelRequest
from rookery.errors import SettingsError
from rookery.providers.models import find_model, known_models

if TYPE_CHECKING:
    from rookery.providers.exchange import Endpoint

BASE_URLS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "responses": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "vercel-ai-gateway": "https://ai-gateway.vercel.sh/v1",
    "roo": "https://api.roocode.com/proxy/v1",
}
KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "responses": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "vercel-ai-gateway": "VERCEL_AI_GATEWAY_API_KEY",
    "roo": "ROO_API_KEY",
}
OTHER_KEY_VARIABLES = {"gemini": "GOOGLE_API_KEY"}
"""Where else a key is looked for."""
URL_VARIABLES = {"roo": "ROO_CODE_PROVIDER_URL"}
"""Where the address of a provider is found, if not in a flag or the settings."""
LOCAL = ("ollama", "lmstudio", "vllm")
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
        raise SettingsError(f"There is no provider {name!r}. Choose one of {', '.join(NAMES)}.")
    if not model:
        raise SettingsError(f"Choose a model of {name} with --model.")
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
        from rookery.providers.provider_errors import Addressee

        to = Addressee(
            provider=name,
            model=model.id,
            host=urlsplit(url).netloc.rpartition("@")[2],
            secret=key,
            key_source=source,
            known_models=known_models(name),
        )
        return Endpoint(url, to=to, headers=headers, limits=limits, local=name in LOCAL)

    match name:
        case "anthropic":
            from rookery.providers import anthropic

            return anthropic.AnthropicProvider(endpoint(anthropic.headers(key)), model, effort)
        case "responses":
            from rookery.providers import openai, responses

            return responses.ResponsesProvider(endpoint(openai.headers(key)), model, effort)
        case _:
            from rookery.providers import openai

            vendor = openai.VENDORS[name]
            return openai.ChatProvider(endpoint(openai.headers(key)), model, vendor, effort)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(
            f"{url!r} is no base URL. It begins with http:// or https:// and names a host."
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
