"""Words are heard while the answer is still being given."""

import anyio
import pytest

from llm_server import LlmServer, gate, say
from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.engine.ports.model import ModelRequest, TextChunk
from rookery.providers.registry import open_provider

pytestmark = pytest.mark.anyio
HELLO = ModelRequest(system="s", turns=[Turn("user", (Text(text="hi"),))])


@pytest.mark.parametrize("name", ["anthropic", "openai", "responses", "gemini", "bedrock"])
async def test_the_first_text_arrives_before_the_answer_ends(name: str):
    held = gate()
    with LlmServer([say("First ", held, "last")]) as server:
        url = server.url if name in ("anthropic", "bedrock") else f"{server.url}/v1"
        provider = open_provider(name, model="m", base_url=url, api_key="k")
        heard = ""
        with anyio.fail_after(20):
            async with provider.stream(HELLO) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        heard += chunk.text
                    if heard == "First ":
                        held.open()
        await provider.aclose()
    assert heard == "First last"
