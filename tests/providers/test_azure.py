"""Azure OpenAI: where it is asked, and with which proof."""

import pytest

from llm_server import LlmServer, say, status
from rookery.core.limits import FailureKind
from rookery.engine.ports.model import ModelRequest, TextChunk
from rookery.errors import ProviderError, SettingsError
from rookery.providers.catalogue import find_model
from rookery.providers.registry import OpenProvider, open_provider

pytestmark = pytest.mark.anyio

V1 = "/openai/v1/chat/completions"
DATED = "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"


async def answer(provider: OpenProvider, request: ModelRequest) -> str:
    try:
        async with provider.stream(request) as chunks:
            return "".join([each.text async for each in chunks if isinstance(each, TextChunk)])
    finally:
        await provider.aclose()


@pytest.mark.parametrize("ending", ["", "/", "/openai/v1", "/openai/v1/"])
@pytest.mark.parametrize(("version", "path"), [("", V1), ("2024-10-21", DATED)])
@pytest.mark.parametrize(
    ("key", "proof"), [("k-1", ("k-1", None)), ("t-1", (None, "Bearer t-1"))], ids=["key", "token"]
)
async def test_the_surface_and_the_proof_follow_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    hello: ModelRequest,
    ending: str,
    version: str,
    path: str,
    key: str,
    proof: tuple[str | None, str | None],
):
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", version)
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "t-1")
    with LlmServer([say("Yes.")]) as server:
        provider = open_provider("azure", model="my gpt", base_url=server.url + ending, api_key=key)
        assert await answer(provider, hello) == "Yes."
    (request,) = server.requests
    assert request.path == path
    assert (request.headers.get("api-key"), request.headers.get("authorization")) == proof
    assert request.body["model"] == "my gpt"


async def test_a_dated_surface_is_not_sent_newer_fields(
    monkeypatch: pytest.MonkeyPatch, hello: ModelRequest
):
    request = ModelRequest(system="", turns=hello.turns, cache_key="task", max_output=9)
    keys = []
    for version in ("", "2024-10-21"):
        monkeypatch.setenv("AZURE_OPENAI_API_VERSION", version)
        with LlmServer([say("Yes.")]) as server:
            await answer(open_provider("azure", model="m", base_url=server.url), request)
        assert server.requests[0].body["max_completion_tokens"] == 9
        keys.append(server.requests[0].body.get("prompt_cache_key"))
    assert keys == ["task", None]


def test_a_missing_address_says_which_variable_to_set():
    with pytest.raises(SettingsError) as caught:
        open_provider("azure", model="m", api_key="k")
    assert str(caught.value) == (
        "No address for azure. Set AZURE_OPENAI_ENDPOINT to that of your resource, "
        "for example https://my-resource.openai.azure.com."
    )


def test_a_deployment_named_like_its_model_has_its_facts():
    assert find_model("azure", "gpt-5-mini", {}).window == 400_000


async def test_an_unknown_deployment_is_not_a_model(hello: ModelRequest):
    error = {"code": "DeploymentNotFound", "message": "The deployment does not exist."}
    with LlmServer(status(404, {"error": error})) as server, pytest.raises(ProviderError) as caught:
        await answer(open_provider("azure", model="m", base_url=server.url), hello)
    assert caught.value.kind is FailureKind.NO_MODEL
