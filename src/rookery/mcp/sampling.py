"""Requests of a server to the user's model: shown whole before, and bounded."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rookery.core.blocks import Text
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import KIB
from rookery.engine.ports.model import ModelRequest, Provider, StopChunk, TextChunk, UsageChunk
from rookery.errors import ProviderError
from rookery.mcp.results import visible

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, ErrorData

LARGEST_REQUEST = 64 * KIB
REFUSED = -1
"""The protocol's code for a request that the user rejected."""
_STOPS = {StopReason.LENGTH: "maxTokens", StopReason.END: "endTurn"}


async def sampled(
    params: "CreateMessageRequestParams", provider: Provider, count: Callable[[Usage], None]
) -> "CreateMessageResult | ErrorData":
    """The model's answer. `count` gets the usage, also if there is no answer."""
    from mcp_types import CreateMessageResult, ErrorData, TextContent

    request = ModelRequest(
        system=params.system_prompt or "",
        turns=[Turn(each.role, (Text(text=_text_of(each)),)) for each in params.messages],
        max_output=max(1, min(params.max_tokens, provider.model.max_output)),
        temperature=params.temperature,
        stop=tuple(params.stop_sequences or ()),
    )
    pieces: list[str] = []
    usage, stop = Usage(), StopReason.END
    try:
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text):
                        pieces.append(text)
                    case UsageChunk(so_far):
                        usage = so_far
                    case StopChunk(reason):
                        stop = reason
    except ProviderError:
        return ErrorData(code=REFUSED, message="The model did not answer.")
    finally:
        count(usage)
    return CreateMessageResult(
        role="assistant",
        content=TextContent(type="text", text="".join(pieces)),
        model=provider.model.id,
        stop_reason=_STOPS.get(stop, "endTurn"),
    )


def request_lines(params: "CreateMessageRequestParams") -> tuple[str, ...]:
    """All that a server wants to send to the model. Raises `ValueError` with a sentence."""
    if params.tools:
        raise ValueError("Tools are not supported.")
    if not params.messages:
        raise ValueError("There are no messages.")
    said = [("system", params.system_prompt)] if params.system_prompt else []
    said += [(each.role, _text_of(each)) for each in params.messages]
    if sum(len(text) for _, text in said) > LARGEST_REQUEST:
        raise ValueError(f"The request has more than {LARGEST_REQUEST // KIB} KiB.")
    return tuple(f"{role}: {visible(text, LARGEST_REQUEST)}" for role, text in said)


def _text_of(message: Any) -> str:
    blocks = message.content_as_list
    if any(block.type != "text" for block in blocks):
        raise ValueError("Only text is supported.")
    return "\n\n".join(block.text for block in blocks)
