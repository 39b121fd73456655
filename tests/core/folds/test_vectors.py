"""Recorded logs with their expected rows and states.

A line of a vector is an event, or the expectation after the events above it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.core.folds.view import View, see
from rookery.core.message import Message
from rookery.protocol.codec import event_from_json

VECTORS = sorted((Path(__file__).parents[2] / "vectors").glob("*.jsonl"))


def spelled(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"ts": message.ts, "type": message.type}
    fields[message.type] = message.say or message.ask
    if message.text is not None:
        fields["text"] = message.text
    return fields | {flag: True for flag in ("partial", "answered") if getattr(message, flag)}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_every_recorded_log_folds_to_its_expected_rows(vector: Path):
    view, expectations = View(), 0
    for line in vector.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        if "expect" not in fields:
            view = see(view, event_from_json(line))
            continue
        expectations += 1
        assert {
            "state": view.agent.state,
            "ask": view.agent.current_ask,
            "action": view.agent.required_action,
            "messages": [spelled(message) for message in view.messages],
        } == fields["expect"]
    assert expectations


def test_the_vectors_cover_what_a_client_must_get_right():
    assert {path.stem for path in VECTORS} >= {
        "plain_answer",
        "tool_approved",
        "tool_denied_with_words",
        "command_with_output",
        "failed_stream_and_retry",
        "cancel_mid_stream",
        "crash_and_resume",
        "followup",
        "completion",
        "rewind",
    }
