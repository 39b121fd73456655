"""Providers by name: keys and addresses."""

import subprocess
import sys

import pytest

from rookery.errors import SettingsError
from rookery.providers.listings import ListRequest, ask_for_lists
from rookery.providers.registry import (
    BASE_URLS,
    NAMES,
    is_loopback,
    open_provider,
)
from support.each_row import each_row


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def test_an_unknown_provider_is_answered_with_the_nearest_name_or_all_of_them():
    with pytest.raises(SettingsError, match=r"'antropic'\. Did you mean anthropic\?"):
        open_provider("antropic", model="m")
    with pytest.raises(SettingsError) as caught:
        open_provider("nobody", model="m")
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["ollama", "lmstudio", "vllm"])
async def test_a_local_server_needs_no_key(name: str):
    await open_provider(name, model="m").aclose()
    assert BASE_URLS[name].startswith("http://127.0.0.1:")


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["http://localhost:9/v1", "http://127.0.0.1:9", "http://[::1]:9"])
async def test_a_server_on_this_machine_needs_no_key(url: str):
    await open_provider("anthropic", model="m", base_url=url).aclose()


@each_row("url", ["api.example.com", "ftp://x/y", "http://", "http://h:99999/v1"])
def test_an_invalid_address_is_refused(url: str):
    with pytest.raises(SettingsError, match="is not a base URL"):
        open_provider("openai", model="m", base_url=url, api_key="k")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "proxy",
    [
        "socks://u:secret@h:1080",
        "socks5://u:secret@h:1080",
        "http://u:secret@h:99999",
        "http://u:secret@h:0",
        "http://u:secret@h:one",
    ],
)
async def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(
    proxy: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("all_proxy", proxy)
    with pytest.raises(SettingsError, match="The proxy in all_proxy cannot be used") as caught:
        open_provider("openai", model="m", api_key="k")
    assert "secret" not in str(caught.value)
    request = ListRequest(provider="openai", base_url="https://models.invalid/v1", key="k")
    [answer] = await ask_for_lists([request])
    assert "The proxy in all_proxy cannot be used" in answer.failure


@pytest.mark.anyio
async def test_a_list_that_no_certificates_can_be_found_for_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    request = ListRequest(provider="openai", base_url="https://models.invalid/v1", key="k")
    [answer] = await ask_for_lists([request])
    assert "SSL_CERT_FILE" in answer.failure


@each_row("key", ["k\ney", "schlüssel", "k\x00y"])
def test_a_malformed_key_is_refused_and_not_shown(key: str):
    with pytest.raises(SettingsError, match="Copy it again") as caught:
        open_provider("openai", model="m", api_key=key)
    assert key not in str(caught.value)


def test_a_model_must_be_named():
    with pytest.raises(SettingsError, match="--model"):
        open_provider("openai", model="", api_key="k")


def test_naming_a_provider_loads_none():
    code = (
        "import sys, rookery.providers.catalogue as p; p.find_model('openai', 'gpt-5', {});"
        "print([m for m in ('httpx2', 'yaml', 'ssl') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


SHARED = {
    *("catalogue", "exchange", "http_client", "http_response", "listener", "registry"),
    "wire_format",
}
LOADED = {
    "openai": {"openai", "vendors"},
    "groq": {"openai", "vendors"},
    "azure": {"azure", "openai", "vendors"},
    "anthropic": {"anthropic"},
    "responses": {"responses"},
    "gemini": {"gemini"},
    "bedrock": {"aws", "bedrock"},
    "vertex": {"vertex"},
}


def test_a_provider_loads_its_own_wire_and_no_other():
    code = (
        "import sys; from rookery.providers.registry import open_provider;"
        "open_provider(sys.argv[1], model='m', base_url='http://127.0.0.1:9', api_key='k');"
        "print(*(m for m in sys.modules if m.startswith('rookery.providers.')))"
    )
    for name, own in LOADED.items():
        command = [sys.executable, "-c", code, name]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded = {module.rpartition(".")[2] for module in shown.stdout.split()}
        assert loaded == SHARED | own, name


@each_row(
    ("url", "local"),
    [
        ("http://localhost:1234/v1", True),
        ("http://127.0.0.1:1234", True),
        ("http://127.8.9.10", True),
        ("http://[::1]:1234", True),
        ("http://127.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost.evil.example", False),
        ("https://api.openai.com/v1", False),
    ],
)
def test_only_an_address_of_this_machine_is_local(url: str, local: bool):
    assert is_loopback(url) is local
