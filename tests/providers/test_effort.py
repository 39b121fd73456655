"""The reasoning effort in each wire format; models without reasoning do not get it."""

from typing import Any

from msgspec.structs import replace

from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.core.limits import EFFORTS, Effort
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.providers import anthropic, openai, responses
from rookery.providers.catalogue import find_model
from rookery.providers.vendors import VENDORS, Vendor, vendor_of
from support.each_row import each_row
from support.provider_validators import validate_anthropic, validate_chat, validate_responses

REQUEST = ModelRequest(system="Be brief.", turns=[Turn("user", (Text(text="Go."),))])
PLAIN = ModelInfo(id="m", provider="openai")
THINKS = ModelInfo(id="m", provider="openai", thinking=True)
OF_THINKING = ("thinking", "output_config", "reasoning", "reasoning_effort")
ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def said(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in OF_THINKING if name in body}


@each_row(
    ("effort", "sent"),
    [
        ("unspecified", {"thinking": ADAPTIVE}),
        ("disabled", {"thinking": {"type": "disabled"}}),
        ("none", {"thinking": {"type": "disabled"}}),
        ("minimal", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
        ("low", {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
        ("medium", {"thinking": ADAPTIVE, "output_config": {"effort": "medium"}}),
        ("high", {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}),
        ("xhigh", {"thinking": ADAPTIVE, "output_config": {"effort": "xhigh"}}),
    ],
)
def test_anthropic_takes_an_effort_beside_adaptive_thinking(effort: Effort, sent: dict[str, Any]):
    body = anthropic.body(REQUEST, find_model("anthropic", "claude-opus-5-5", {}), effort)
    validate_anthropic(body)
    assert said(body) == sent


@each_row(
    ("effort", "budget"),
    [
        ("unspecified", 0),
        ("disabled", 0),
        ("none", 0),
        ("minimal", 1024),
        ("low", 2048),
        ("medium", 8192),
        ("high", 16_384),
        ("xhigh", 20_000),
    ],
)
def test_an_older_anthropic_model_takes_a_budget_below_its_output_limit(
    effort: Effort, budget: int
):
    body = anthropic.body(REQUEST, find_model("anthropic", "claude-haiku-4-5", {}), effort)
    sent = {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}
    assert said(body) == sent
    assert budget < body["max_tokens"]


def test_a_budget_that_would_not_fit_is_not_sent():
    small = find_model("anthropic", "claude-haiku-4-5", {"max_output": 1500})
    assert said(anthropic.body(REQUEST, small, "high")) == {}


@each_row(
    ("vendor", "effort", "sent"),
    [
        ("openai", "unspecified", {}),
        ("openai", "disabled", {"reasoning_effort": "none"}),
        ("openai", "minimal", {"reasoning_effort": "minimal"}),
        ("openai", "xhigh", {"reasoning_effort": "xhigh"}),
        ("ollama", "low", {"reasoning_effort": "low"}),
        ("gemini", "medium", {"reasoning_effort": "medium"}),
        ("gemini", "xhigh", {"reasoning_effort": "high"}),
        ("openrouter", "unspecified", {}),
        ("openrouter", "none", {"reasoning": {"enabled": False}}),
        ("openrouter", "high", {"reasoning": {"effort": "high"}}),
        ("vercel-ai-gateway", "low", {"reasoning": {"effort": "low"}}),
        ("roo", "xhigh", {"reasoning": {"effort": "xhigh"}}),
        ("mistral", "none", {"reasoning_effort": "none"}),
        ("mistral", "low", {"reasoning_effort": "high"}),
        ("xai", "none", {}),
        ("xai", "minimal", {"reasoning_effort": "low"}),
        ("deepseek", "unspecified", {}),
        ("deepseek", "disabled", {"thinking": {"type": "disabled"}}),
        ("deepseek", "medium", {"reasoning_effort": "high"}),
        ("zai", "xhigh", {"reasoning_effort": "max"}),
        ("moonshot", "none", {"thinking": {"type": "disabled"}}),
        ("moonshot", "high", {}),
        ("groq", "none", {"reasoning_effort": "none"}),
        ("groq", "high", {}),
        ("together", "none", {"reasoning": {"enabled": False}}),
        ("together", "xhigh", {"reasoning_effort": "high"}),
        ("fireworks", "xhigh", {"reasoning_effort": "xhigh"}),
        ("cerebras", "minimal", {"reasoning_effort": "low"}),
    ],
)
def test_chat_sends_the_effort_in_the_vendors_form(
    vendor: str, effort: Effort, sent: dict[str, Any]
):
    body = openai.body(REQUEST, THINKS, vendor_of(replace(THINKS, provider=vendor)), effort)
    validate_chat(body)
    assert said(body) == sent


@each_row(
    ("effort", "sent"),
    [
        ("unspecified", {"summary": "auto"}),
        ("disabled", {"summary": "auto", "effort": "none"}),
        ("xhigh", {"summary": "auto", "effort": "xhigh"}),
    ],
)
def test_responses_send_the_effort_in_the_reasoning_field(effort: Effort, sent: dict[str, Any]):
    body = responses.body(REQUEST, THINKS, effort)
    validate_responses(body)
    assert said(body) == {"reasoning": sent}


@each_row("effort", EFFORTS)
def test_a_model_without_reasoning_is_sent_no_effort(effort: Effort):
    assert said(anthropic.body(REQUEST, PLAIN, effort)) == {}
    assert said(responses.body(REQUEST, PLAIN, effort)) == {}
    for vendor in (Vendor(), *VENDORS.values()):
        assert said(openai.body(REQUEST, PLAIN, vendor, effort)) == {}
