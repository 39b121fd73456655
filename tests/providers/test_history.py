"""Every provider accepts the history folded from any log."""

import os

from hypothesis import example, given, settings

from rookery.core.facts import Event, Reminded, Rewound, TaskOpened
from rookery.core.folds.history import history
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.providers import anthropic, gemini, openai, responses
from rookery.providers.vendors import VENDORS
from support.provider_validators import (
    validate_anthropic,
    validate_chat,
    validate_gemini,
    validate_responses,
)
from support.sample_logs import ANY_LOG, log

CHATS = [VENDORS[name] for name in ("openai", "openrouter", "mistral", "deepseek", "roo")]
"""One vendor for each form of the messages."""
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SEEING = ModelInfo(id="m", provider="p", images=True, thinking=True, caching=True)
BLIND = ModelInfo(id="m", provider="p")


@settings(max_examples=1000 if TORTURE else 50, deadline=None)
@given(ANY_LOG)
@example(log(Rewound(to=0), Reminded(text="")))
def test_any_prefix_of_any_log_gives_a_history_all_wire_families_accept(events: list[Event]):
    opened = log(TaskOpened(text="go"))
    for end in {0, 1, len(events) // 2, len(events)}:
        request = ModelRequest(system="s", turns=history([*opened, *_after(opened, events[:end])]))
        for model in (SEEING, BLIND):
            validate_anthropic(anthropic.body(request, model))
            validate_responses(responses.body(request, model))
            validate_gemini(gemini.body(request, model))
            for vendor in CHATS:
                validate_chat(openai.body(request, model, vendor))


def _after(first: list[Event], events: list[Event]) -> list[Event]:
    """The events renumbered to follow the first ones."""
    return [
        Event(first[-1].seq + event.seq, event.sub, first[-1].ts + event.ts, event.fact)
        for event in events
    ]
