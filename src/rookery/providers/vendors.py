"""How servers of the chat completions wire differ, as data.

`VENDORS` has a row for each provider that differs from a plain `Vendor`. `BY_MODEL` has rows for
models that differ from the others of their provider, by the beginning of their names.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from rookery.core.limits import NOT_AT_ALL, Effort, effort_word
from rookery.engine.ports.model import ModelInfo
from rookery.first_use import lazy_pattern

BETWEEN_TEXTS = "\n\n"
_SHORT_ID = lazy_pattern(r"[A-Za-z0-9]{9}")
_BRIDGE = "OK."

Switch: TypeAlias = Literal["", "reasoning", "thinking"]


class Vendor(Struct, frozen=True, kw_only=True):
    """How a server differs from the others."""

    output_limit: str = "max_tokens"
    counts_if_asked: bool = True
    """Whether it takes `stream_options`; the others report the usage without being asked."""
    cache_key: bool = False
    reports_cost: bool = False
    """Whether it reports the cost, if asked."""
    keeps_reasoning: bool = False
    """Whether it wants its `reasoning_details` back."""
    returns_reasoning: bool = False
    """Whether it wants `reasoning_content` back with every call of a reasoning model."""
    switch: Switch = ""
    """The object in which reasoning is switched off, if not by the effort."""
    effort_in_switch: bool = False
    efforts: Mapping[str, str] = {}
    """Its names for efforts that differ from ours; empty: not sent."""
    for_reasoning: Mapping[str, Any] = {}
    """Further fields for reasoning models."""
    short_ids: bool = False
    """Whether ids of calls must have exactly nine letters and digits."""
    strict_order: bool = False
    """Whether a tool's result may not be followed by the user."""


_TABLE = Vendor(switch="reasoning", effort_in_switch=True)
_LOW_TO_HIGH = {"minimal": "low", "xhigh": "high"}
_LOW_TO_MAX = {"minimal": "low", "medium": "high", "xhigh": "max"}
_NO_EFFORTS = dict.fromkeys(("minimal", "low", "medium", "high", "xhigh"), "")
_OPENAI = Vendor(output_limit="max_completion_tokens", cache_key=True)

VENDORS = {
    "openai": _OPENAI,
    "openrouter": Vendor(
        reports_cost=True, keeps_reasoning=True, switch="reasoning", effort_in_switch=True
    ),
    "gemini": Vendor(efforts={"xhigh": "high"}),
    "vercel-ai-gateway": _TABLE,
    "roo": Vendor(keeps_reasoning=True, switch="reasoning", effort_in_switch=True),
    "mistral": Vendor(
        counts_if_asked=False,
        cache_key=True,
        efforts={"minimal": "none", "low": "high", "medium": "high", "xhigh": "high"},
        short_ids=True,
        strict_order=True,
    ),
    "xai": Vendor(efforts={"none": "", "minimal": "low"}),
    "deepseek": Vendor(returns_reasoning=True, switch="thinking", efforts=_LOW_TO_MAX),
    "groq": Vendor(
        output_limit="max_completion_tokens",
        efforts=_NO_EFFORTS,
        for_reasoning={"reasoning_format": "parsed"},
    ),
    "together": Vendor(switch="reasoning", efforts=_LOW_TO_HIGH),
    "fireworks": Vendor(returns_reasoning=True, efforts={"minimal": "low"}),
    "cerebras": Vendor(output_limit="max_completion_tokens", efforts=_LOW_TO_HIGH),
    "moonshot": Vendor(returns_reasoning=True, switch="thinking", efforts=_NO_EFFORTS),
    "zai": Vendor(returns_reasoning=True, switch="thinking", efforts=_LOW_TO_MAX),
}
BY_MODEL = {
    ("groq", "openai/gpt-oss"): Vendor(
        output_limit="max_completion_tokens", efforts={"none": "", **_LOW_TO_HIGH}
    ),
    ("github", "openai/gpt-5"): Vendor(output_limit="max_completion_tokens"),
    ("github", "openai/o"): Vendor(output_limit="max_completion_tokens"),
}


def vendor_of(model: ModelInfo) -> Vendor:
    for (provider, begins), vendor in BY_MODEL.items():
        if model.provider == provider and model.id.startswith(begins):
            return vendor
    return VENDORS.get(model.provider, Vendor())


def reasoning_fields(vendor: Vendor, effort: Effort) -> dict[str, Any]:
    """What a request to a reasoning model says about its reasoning."""
    fields = dict(vendor.for_reasoning)
    if effort in NOT_AT_ALL and vendor.switch:
        off = {"enabled": False} if vendor.switch == "reasoning" else {"type": "disabled"}
        return {**fields, vendor.switch: off}
    ours = effort_word(effort)
    word = vendor.efforts.get(ours, ours)
    if word and vendor.effort_in_switch:
        return {**fields, vendor.switch: {"effort": word}}
    return {**fields, "reasoning_effort": word} if word else fields


def adapt(messages: list[dict[str, Any]], vendor: Vendor) -> list[dict[str, Any]]:
    """The messages with the ids and in the order that the server accepts."""
    if vendor.short_ids:
        for message in messages:
            if "tool_call_id" in message:
                message["tool_call_id"] = _short(message["tool_call_id"])
            for call in message.get("tool_calls", ()):
                call["id"] = _short(call["id"])
    return _in_order(messages) if vendor.strict_order else messages


def _short(call_id: str) -> str:
    if _SHORT_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _in_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Text of the user goes into the result before it; for images an answer stands between."""
    ordered: list[dict[str, Any]] = []
    for message in messages:
        if not ordered or message["role"] != "user" or ordered[-1]["role"] != "tool":
            ordered.append(message)
        elif isinstance(message["content"], str):
            texts = (ordered[-1]["content"], message["content"])
            ordered[-1] = {**ordered[-1], "content": BETWEEN_TEXTS.join(filter(None, texts))}
        else:
            ordered += [{"role": "assistant", "content": _BRIDGE}, message]
    return ordered
