"""The web search of each provider: what is sent, and what is read of the answer."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_server import LlmServer, status
from llm_server.server import Page
from rookery.core.limits import Limits
from rookery.engine.ports.tool import WebFindings, WebHit
from rookery.errors import ToolError
from rookery.providers.provider_search import PROMPT, ProviderSearch
from rookery.providers.registry import SEARCHING, address_of_provider
from support.each_row import each_row

pytestmark = pytest.mark.anyio
VECTORS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "vectors" / "web_searches.yaml").read_text(encoding="utf-8")
)
BY_PROVIDER = {vector["provider"]: vector for vector in VECTORS}


def search(provider: str, server: LlmServer) -> ProviderSearch:
    url = address_of_provider(provider, f"{server.url}/v1")
    return ProviderSearch(provider, model="m-1", url=url, key="secret-1", limits=Limits())


def answering(provider: str, page: Page) -> LlmServer:
    """A server with this answer at the path of the provider's search."""
    path = BY_PROVIDER[provider]["path"]
    return LlmServer(page, pages={path: page}) if provider == "gemini" else LlmServer(page)


def test_every_search_has_a_vector():
    assert set(BY_PROVIDER) == SEARCHING


@each_row("provider", BY_PROVIDER)
async def test_a_search_is_a_separate_request(provider: str):
    vector = BY_PROVIDER[provider]
    with answering(provider, status(200, vector["answer"])) as server:
        found = await search(provider, server).search("rook & co")
    hits = tuple(WebHit(**hit) for hit in vector["hits"])
    assert found == WebFindings(hits=hits, summary=vector["summary"])
    (request,) = server.requests
    assert request.path == vector["path"]
    assert {name: request.body[name] for name in vector["sent"]} == vector["sent"]
    assert PROMPT.format("rook & co") in str(request.body.values()).replace("\\n", "\n")
    assert "secret-1" in str(request.headers)


FAILURES: dict[str, tuple[Any, str]] = {
    "key": (status(401), "The web search of anthropic failed.*rejected the key"),
    "no search": (status(400, {"error": {"message": "Not enabled"}}), "failed.*Not enabled"),
    "error": (
        status(
            200,
            {
                "content": [
                    {
                        "type": "web_search_tool_result",
                        "content": {
                            "type": "web_search_tool_result_error",
                            "error_code": "too_many_requests",
                        },
                    }
                ]
            },
        ),
        "The web search failed: too_many_requests",
    ),
    "large": (status(200, b" " * 5_000_000), "is too large"),
}


@pytest.mark.parametrize(("answer", "reason"), FAILURES.values(), ids=FAILURES)
async def test_a_failed_search_is_one_sentence(answer: Any, reason: str):
    with LlmServer(answer) as server, pytest.raises(ToolError, match=reason) as caught:
        await search("anthropic", server).search("rook")
    assert "secret-1" not in str(caught.value)


ODD = ["", "[]", '"x"', '{"content": 3, "output": {}, "candidates": [1], "choices": [{}]}']


@each_row("provider", BY_PROVIDER)
@each_row("body", ODD)
async def test_an_answer_without_results_finds_nothing(provider: str, body: str):
    with answering(provider, status(200, body)) as server:
        assert await search(provider, server).search("rook") == WebFindings(hits=())


def test_the_vectors_have_the_vendors_own_format():
    from anthropic.types import Message
    from google.genai.types import GenerateContentResponse
    from openai.types.responses import Response

    kits = {
        "anthropic": Message.model_validate,
        "responses": Response.model_validate,
        "gemini": GenerateContentResponse.model_validate,
    }
    for provider, validate in kits.items():
        validate(BY_PROVIDER[provider]["answer"])
