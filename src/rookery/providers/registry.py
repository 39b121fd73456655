"""Providers by name.

Importing this package loads no provider: each is imported when it is opened.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.limits import CHOOSE_A_MODEL, Effort, Limits
from rookery.engine.ports.model import ModelInfo, Provider
from rookery.errors import SettingsError
from rookery.providers.catalogue import find_model, known_models


class ProviderRow(Struct, frozen=True, kw_only=True):
    """A provider: its address and the module of its wire format."""

    url: str
    module: str = "openai"
    """A module of this package with `headers(key)` and the class `PROVIDER`."""
    key: str = ""
    """The environment variable with its key, if it takes one."""
    other_key: str = ""
    """An alternative variable for the key."""
    url_variable: str = ""
    """The variable with its address, if not given by a flag or setting."""
    credentials: str = ""
    """A module of this package with `has_credentials(environ)`, if it needs no key."""
    secrets: tuple[str, ...] = ()
    """Further variables whose values must not be shown."""
    local: bool = False
    headers: Mapping[str, str] = {}
    """Further headers of its requests."""
    shared_key: bool = False
    """Whether the variable of the key has other uses, so that other programs may see it."""
    search: str = ""
    """The wire of its own web search in `provider_search`, if it has one."""


PROVIDERS = {
    "anthropic": ProviderRow(
        url="https://api.anthropic.com",
        module="anthropic",
        key="ANTHROPIC_API_KEY",
        url_variable="ANTHROPIC_BASE_URL",
        search="messages",
    ),
    "openai": ProviderRow(
        url="https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        url_variable="OPENAI_BASE_URL",
        search="responses",
    ),
    "responses": ProviderRow(
        url="https://api.openai.com/v1",
        module="responses",
        key="OPENAI_API_KEY",
        url_variable="OPENAI_BASE_URL",
        search="responses",
    ),
    "openrouter": ProviderRow(
        url="https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY", search="chat"
    ),
    "ollama": ProviderRow(url="http://127.0.0.1:11434/v1", local=True),
    "lmstudio": ProviderRow(url="http://127.0.0.1:1234/v1", local=True),
    "vllm": ProviderRow(url="http://127.0.0.1:8000/v1", local=True),
    "gemini": ProviderRow(
        url="https://generativelanguage.googleapis.com/v1beta",
        module="gemini",
        key="GEMINI_API_KEY",
        other_key="GOOGLE_API_KEY",
        search="gemini",
    ),
    "vertex": ProviderRow(
        url="https://{host}/v1/projects/{project}/locations/{location}/publishers/google",
        module="vertex",
        key="VERTEX_ACCESS_TOKEN",
        credentials="vertex",
    ),
    "vercel-ai-gateway": ProviderRow(
        url="https://ai-gateway.vercel.sh/v1", key="VERCEL_AI_GATEWAY_API_KEY"
    ),
    "roo": ProviderRow(
        url="https://api.roocode.com/proxy/v1",
        key="ROO_API_KEY",
        url_variable="ROO_CODE_PROVIDER_URL",
    ),
    "mistral": ProviderRow(url="https://api.mistral.ai/v1", key="MISTRAL_API_KEY"),
    "xai": ProviderRow(url="https://api.x.ai/v1", key="XAI_API_KEY"),
    "deepseek": ProviderRow(url="https://api.deepseek.com", key="DEEPSEEK_API_KEY"),
    "groq": ProviderRow(url="https://api.groq.com/openai/v1", key="GROQ_API_KEY"),
    "together": ProviderRow(url="https://api.together.xyz/v1", key="TOGETHER_API_KEY"),
    "fireworks": ProviderRow(url="https://api.fireworks.ai/inference/v1", key="FIREWORKS_API_KEY"),
    "cerebras": ProviderRow(url="https://api.cerebras.ai/v1", key="CEREBRAS_API_KEY"),
    "moonshot": ProviderRow(url="https://api.moonshot.ai/v1", key="MOONSHOT_API_KEY"),
    "zai": ProviderRow(url="https://api.z.ai/api/paas/v4", key="ZAI_API_KEY"),
    "github": ProviderRow(
        url="https://models.github.ai/inference",
        key="GITHUB_TOKEN",
        shared_key=True,
        headers={"x-github-api-version": "2022-11-28"},
    ),
    "bedrock": ProviderRow(
        url="https://bedrock-runtime.{region}.amazonaws.com",
        module="bedrock",
        key="AWS_BEARER_TOKEN_BEDROCK",
        url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        credentials="aws",
        secrets=("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    ),
    "azure": ProviderRow(
        url="https://{resource}.openai.azure.com",
        module="azure",
        key="AZURE_OPENAI_API_KEY",
        other_key="AZURE_OPENAI_AD_TOKEN",
        url_variable="AZURE_OPENAI_ENDPOINT",
    ),
}
BASE_URLS = {name: row.url for name, row in PROVIDERS.items()}
KEY_VARIABLES = {name: row.key for name, row in PROVIDERS.items() if row.key}
SEARCHING = frozenset(name for name, row in PROVIDERS.items() if row.search)
"""Providers with a web search of their own."""
SEARCH_KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
"""The variables with the keys of search engines, which are stored like those of providers."""
PRIVATE_VARIABLES = frozenset(
    (
        *(row.key for row in PROVIDERS.values() if not row.shared_key),
        *SEARCH_KEYS.values(),
    )
)
"""Variables that programs of the user, such as MCP servers, are not given."""
OTHER_KEY_VARIABLES = {name: row.other_key for name, row in PROVIDERS.items() if row.other_key}
SECRET_VARIABLES = (
    *KEY_VARIABLES.values(),
    *OTHER_KEY_VARIABLES.values(),
    *SEARCH_KEYS.values(),
    *(name for row in PROVIDERS.values() for name in row.secrets),
)
URL_VARIABLES = {name: row.url_variable for name, row in PROVIDERS.items() if row.url_variable}
CREDENTIALS = {name: row.credentials for name, row in PROVIDERS.items() if row.credentials}
LOCAL = tuple(name for name, row in PROVIDERS.items() if row.local)
NAMES = (*BASE_URLS, "local", "scripted")
_ENDINGS = {"anthropic": "/v1", "azure": "/openai/v1", "vertex": "/publishers/google"}
"""What people add to an address although it is part of the path."""
OTHER_NAMES = {
    "openai-native": "responses",
    "claude": "anthropic",
    "chatgpt": "openai",
    "gpt": "openai",
    "google": "gemini",
    "google-vertex": "vertex",
    "grok": "xai",
    "amazon-bedrock": "bedrock",
}
"""Names of providers in other programs."""

DEFAULT_MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai": "gpt-6.1-sol",
    "responses": "gpt-6.1-sol",
    "openrouter": "anthropic/claude-opus-5.5",
    "vercel-ai-gateway": "anthropic/claude-opus-5.5",
    "gemini": "gemini-3.8-flash",
    "vertex": "gemini-3.8-flash",
    "roo": "anthropic/claude-opus-5.5",
    "mistral": "mistral-medium-latest",
    "xai": "grok-4.7",
    "deepseek": "deepseek-v4-pro",
    "groq": "openai/gpt-oss-120b",
    "together": "zai-org/GLM-5.3",
    "fireworks": "accounts/fireworks/models/glm-5p3",
    "cerebras": "qwen-3.8-27b",
    "moonshot": "kimi-k3",
    "zai": "glm-5.3",
    "github": "openai/gpt-4.1",
}
BY_KEY = (
    *("anthropic", "openai", "openrouter", "gemini", "vercel-ai-gateway", "mistral", "xai"),
    *("deepseek", "groq", "together", "fireworks", "cerebras", "moonshot", "zai"),
)
"""GitHub is missing because its token is often set for other reasons."""


class OpenProvider(Provider, Protocol):
    """A provider with a connection, closed by the caller."""

    async def aclose(self) -> None: ...


def open_provider(
    name: str,
    *,
    model: str,
    base_url: str | None = None,
    api_key: str = "",
    limits: Limits | None = None,
    described: Mapping[str, Any] | None = None,
    listed: Mapping[str, Any] | None = None,
    key_source: str = "",
    effort: Effort = "unspecified",
) -> OpenProvider:
    """Open the provider with this name. Sends nothing yet.

    `listed` is what the provider's list says of the model; `effort` is the reasoning effort;
    `key_source` says in error messages where the key comes from.
    Raises `SettingsError` for anything that cannot work.
    """
    if name not in NAMES:
        raise no_such_provider(name, NAMES)
    if not model:
        raise SettingsError(f"{CHOOSE_A_MODEL} {name} with --model.")
    if name == "local":
        from rookery.providers.local_model import open_local

        return open_local(model, described or {}, limits or Limits(), effort)
    info = replace(find_model(name, model, described or {}, listed or {}), base_url=base_url or "")
    if name == "scripted":
        from rookery.providers.scripted import FileProvider, read_script

        return FileProvider(read_script(Path(model)), info)
    url = address_of_provider(name, base_url)
    key = _usable(name, api_key.strip())
    return _connected(name, info, url, key, key_source, limits or Limits(), effort)


def _connected(
    name: str, model: ModelInfo, url: str, key: str, source: str, limits: Limits, effort: Effort
) -> OpenProvider:
    from rookery.providers.exchange import Endpoint
    from rookery.providers.listener import Addressee

    row = PROVIDERS[name]
    to = Addressee(
        provider=name,
        model=model.id,
        host=urlsplit(url).netloc.rpartition("@")[2],
        secret=key,
        key_source=source or ("from your credentials" if row.credentials else ""),
        known_models=known_models(name),
        address_flag=f" --base-url {model.base_url}" if model.base_url else "",
    )
    # Google also offers Gemini by chat completions, at an address of its own
    chat = name == "gemini" and url.endswith("/openai")
    module = wire_module("openai" if chat else name)
    headers = {**module.headers(key), **row.headers}
    endpoint = Endpoint(url, to=to, headers=headers, limits=limits, local=row.local)
    provider: OpenProvider = module.PROVIDER(endpoint, model, effort)
    return provider


def wire_module(name: str) -> Any:
    return import_module(f"rookery.providers.{PROVIDERS[name].module}")


def address_of_provider(name: str, base_url: str | None) -> str:
    """The address that paths are added to. Raises `SettingsError` if it is none."""
    url = _checked(base_url or _usual_address(name)).rstrip("/")
    return url.removesuffix(_ENDINGS.get(name, ""))


def _usual_address(name: str) -> str:
    """Its address; the module fills in what depends on the user's account."""
    url = BASE_URLS[name]
    return str(wire_module(name).address(url)) if "{" in url else url


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


def no_such_provider(name: str, known: Sequence[str]) -> SettingsError:
    """The error for an unknown name: with the nearest known one, or all of them."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Available: {', '.join(known)}."
    return SettingsError(f"No such provider: {name!r}. {hint}")


def how_to_get_a_model() -> str:
    """The ways to a first model, one on each line."""
    others = ", ".join(KEY_VARIABLES[provider] for provider in BY_KEY[1:3])
    return (
        f"  {NAME} auth openrouter   (sign in with your browser; needs no key)\n"
        f"  {NAME} auth anthropic   (stores your key; or {', '.join(BY_KEY[1:4])}, …)\n"
        f"  export ANTHROPIC_API_KEY=…   (or {others}, …)\n"
        f"  start {' or '.join(LOCAL)} on its usual port, then: {NAME} models\n"
        f'  {NAME} --provider local -m FILE.gguf "your task"   (runs a model file)\n'
        f"  {NAME} demo   (needs no model)"
    )


def is_encrypted(url: str) -> bool:
    """Whether it is an HTTPS address, `HTTPS://` included."""
    return urlsplit(url).scheme == "https"


def is_loopback(url: str) -> bool:
    from ipaddress import ip_address

    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
