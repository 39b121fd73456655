"""Rules of the providers for a conversation, as strict as the strictest of them.

Each function raises `AssertionError` with the reason if a request body would be rejected.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def validate_anthropic(body: dict[str, Any]) -> None:
    """Messages API: roles alternate, starting with the user; the results of a turn's calls begin
    the next user turn, one each; reasoning is signed and never last."""
    _encodable(body)
    _tool_names([tool["name"] for tool in body.get("tools", [])])
    assert body["max_tokens"] > 0, "max_tokens must be positive"
    messages = body["messages"]
    _alternating([message["role"] for message in messages])
    owed: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        blocks = message["content"]
        assert blocks, f"messages.{at} is empty"
        kinds = [block["type"] for block in blocks]
        for block in blocks:
            _anthropic_block(block, at)
        if message["role"] == "assistant":
            assert "tool_result" not in kinds, f"messages.{at}: an assistant gave a result"
            assert kinds[-1] not in ("thinking", "redacted_thinking"), (
                f"messages.{at} ends in reasoning"
            )
            owed = _fresh_ids([b["id"] for b in blocks if b["type"] == "tool_use"], seen, at)
        else:
            assert not {"tool_use", "thinking", "redacted_thinking"} & set(kinds), (
                f"messages.{at}: a user made a call or reasoned"
            )
            results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
            _answered(owed, results, at)
            first = kinds[: len(results)]
            assert first == ["tool_result"] * len(results), f"messages.{at}: results come first"
            owed = []
    _answered(owed, [], len(messages))
    marks = json.dumps(body).count('"cache_control"')
    assert marks <= 4, f"{marks} cache marks; at most 4 are allowed"


def _anthropic_block(block: dict[str, Any], at: int) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), f"messages.{at}: blank text"
        case "thinking":
            assert block["signature"], f"messages.{at}: unsigned reasoning"
            assert "cache_control" not in block, f"messages.{at}: a cache mark on reasoning"
        case "redacted_thinking":
            assert block["data"], f"messages.{at}: reasoning without data"
        case "image":
            assert block["source"]["type"] == "base64", f"messages.{at}: an image without data"
        case "tool_use":
            assert isinstance(block["input"], dict), f"messages.{at}: input is not an object"
            assert _NAME.fullmatch(block["name"]), f"messages.{at}: name {block['name']!r}"
        case "tool_result":
            for part in block["content"] if isinstance(block["content"], list) else ():
                assert part["type"] in ("text", "image"), f"messages.{at}: {part['type']} in result"
        case other:
            raise AssertionError(f"messages.{at}: unknown block {other}")


def validate_chat(body: dict[str, Any]) -> None:
    """Chat completions: at most one system message, at the start; each call is answered by one
    tool message directly after it; tool messages have only text."""
    _encodable(body)
    _tool_names([tool["function"]["name"] for tool in body.get("tools", [])])
    messages = body["messages"]
    talk = messages[1:] if messages and messages[0]["role"] == "system" else messages
    marks = "cache_control" in str(messages)
    owed: list[str] = []
    given: list[str] = []
    seen: set[str] = set()
    before = "system"
    for at, message in enumerate(talk):
        role = message["role"]
        if role == "tool":
            assert _is_result(message["content"], marks=marks), (
                f"messages.{at}: a result that is not text"
            )
            given.append(message["tool_call_id"])
            before = role
            continue
        _answered(owed, given, at)
        owed, given = [], []
        assert role in ("user", "assistant"), f"messages.{at}: role {role}"
        assert role != before, f"messages.{at}: two {role} messages in a row"
        if role == "assistant":
            assert at > 0, "the first message must be the user's"
            calls = message.get("tool_calls", [])
            assert calls or message["content"], f"messages.{at} is empty"
            assert calls or "tool_calls" not in message, f"messages.{at}: an empty list of calls"
            for call in calls:
                assert _NAME.fullmatch(call["function"]["name"]), f"messages.{at}: call's name"
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
            owed = _fresh_ids([call["id"] for call in calls], seen, at)
        else:
            assert message["content"], f"messages.{at} is empty"
        before = role
    _answered(owed, given, len(talk))
    marks = json.dumps(body).count('"cache_control"')
    assert marks <= 4, f"{marks} cache marks; at most 4 are allowed"


def _is_result(content: Any, *, marks: bool) -> bool:
    """Text, or text parts where the request has cache marks."""
    if isinstance(content, str):
        return True
    texts = [part["text"] for part in content if part["type"] == "text" and part["text"].strip()]
    return marks and bool(texts) and len(texts) == len(content)


def validate_responses(body: dict[str, Any]) -> None:
    """Responses: calls and outputs are paired, outputs directly after their calls; reasoning is
    followed by what it led to."""
    _encodable(body)
    _tool_names([tool["name"] for tool in body.get("tools", [])])
    assert body["store"] is False, "the server must not keep anything"
    owed: list[str] = []
    given: list[str] = []
    seen: set[str] = set()
    before = ""
    for at, item in enumerate(body["input"]):
        kind = item["type"]
        if kind == "function_call":
            assert not given, f"input.{at}: a call between outputs"
            assert _NAME.fullmatch(item["name"]), f"input.{at}: name {item['name']!r}"
            assert isinstance(json.loads(item["arguments"]), dict)
            owed += _fresh_ids([item["call_id"]], seen, at)
        elif kind == "function_call_output":
            given.append(item["call_id"])
        elif kind == "message" and item["role"] == "assistant":
            assert not given, f"input.{at}: text between outputs"
        elif kind == "message":
            assert before != "reasoning", f"input.{at}: reasoning that led to nothing"
        if owed and len(given) == len(owed):
            _answered(owed, given, at)
            owed, given = [], []
        assert not (kind == "message" and item["role"] == "user" and owed), (
            f"input.{at}: the user speaks before every call is answered"
        )
        assert kind != "message" or item["content"], f"input.{at} is empty"
        before = kind
    assert before != "reasoning", "the input ends in reasoning"
    _answered(owed, given, len(body["input"]))


def validate_gemini(body: dict[str, Any]) -> None:
    """Gemini: roles alternate, starting with the user; each call is answered by one response of
    its name in the next content; a part holds one thing; the first call of an answer is signed."""
    _encodable(body)
    declared = [one for tool in body.get("tools", []) for one in tool["functionDeclarations"]]
    _tool_names([one["name"] for one in declared])
    contents = body["contents"]
    _alternating([{"model": "assistant"}.get(each["role"], each["role"]) for each in contents])
    owed: list[dict[str, Any]] = []
    seen: set[str] = set()
    for at, content in enumerate(contents):
        parts = content["parts"]
        assert parts, f"contents.{at} is empty"
        for part in parts:
            _gemini_part(part, at)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if content["role"] == "model":
            assert not results, f"contents.{at}: a model gave a result"
            assert calls or any(part.get("text") for part in parts), f"contents.{at} is empty"
            signed = [part for part in parts if "functionCall" in part][:1]
            assert all(part.get("thoughtSignature") for part in signed), f"contents.{at}: unsigned"
            _fresh_ids([call["id"] for call in calls], seen, at)
        else:
            assert not calls, f"contents.{at}: a user made a call"
            assert not any("thoughtSignature" in part for part in parts), f"contents.{at}: signed"
            given = [(result["id"], result["name"]) for result in results]
            assert given == [(call["id"], call["name"]) for call in owed], (
                f"contents.{at}: calls {owed} were answered by {given}"
            )
        owed = calls
    assert not owed, "the last calls have no response"


def _gemini_part(part: dict[str, Any], at: int) -> None:
    data = part.keys() - {"thought", "thoughtSignature"}
    assert len(data) == 1, f"contents.{at}: a part with {sorted(data)}"
    match part:
        case {"text": str(text)}:
            assert text or part.get("thoughtSignature"), f"contents.{at}: empty text"
        case {"functionCall": {"name": name, "args": dict()}}:
            assert _NAME.fullmatch(name), f"contents.{at}: name {name!r}"
        case {"functionResponse": {"response": dict()}}:
            pass
        case {"inlineData": {"mimeType": str(), "data": str()}}:
            pass
        case _:
            raise AssertionError(f"contents.{at}: unknown part {part}")


def validate_converse(body: dict[str, Any]) -> None:
    """Converse: as the Messages API. Tools must be declared if there are calls, each result has
    content, and no text is blank."""
    _encodable(body)
    tools = body.get("toolConfig", {}).get("tools", [])
    declared = [tool["toolSpec"] for tool in tools if "toolSpec" in tool]
    _tool_names([one["name"] for one in declared])
    messages = body["messages"]
    _alternating([message["role"] for message in messages])
    owed: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        blocks = message["content"]
        assert all(len(block) == 1 for block in blocks), f"messages.{at}: a block with two kinds"
        texts = [block["text"] for block in blocks if "text" in block]
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        assert blocks, f"messages.{at} is empty"
        assert all(text.strip() for text in texts), f"messages.{at}: blank text"
        assert not (calls and not declared), f"messages.{at}: calls without tools"
        assert not (calls if message["role"] == "user" else results), f"messages.{at}: wrong role"
        assert all(isinstance(call["input"], dict) for call in calls), f"messages.{at}: input"
        assert all(_NAME.fullmatch(call["name"]) for call in calls), f"messages.{at}: name"
        assert all(result["content"] for result in results), f"messages.{at}: an empty result"
        _answered(owed, [result["toolUseId"] for result in results], at)
        owed = _fresh_ids([call["toolUseId"] for call in calls], seen, at)
    assert not owed, "the last calls have no result"


def _alternating(roles: Sequence[str]) -> None:
    assert roles, "there are no messages"
    assert roles[0] == "user", "the first message must be the user's"
    for at, pair in enumerate(pairwise(roles)):
        assert pair[0] != pair[1], f"messages.{at + 1}: two {pair[1]} turns in a row"


def _fresh_ids(ids: list[str], seen: set[str], at: int) -> list[str]:
    for call_id in ids:
        assert _ID.fullmatch(call_id), f"messages.{at}: id {call_id!r}"
        assert call_id not in seen, f"messages.{at}: id {call_id!r} was used before"
        seen.add(call_id)
    return ids


def _answered(owed: Sequence[str], given: Sequence[str], at: int) -> None:
    assert list(given) == list(owed), f"messages.{at}: calls {owed} were answered by {given}"


def _tool_names(names: list[str]) -> None:
    assert len(set(names)) == len(names), "two tools of one name"
    for name in names:
        assert _NAME.fullmatch(name), f"tool name {name!r}"


def _encodable(body: dict[str, Any]) -> None:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise AssertionError(f"half a character: {error}") from error
