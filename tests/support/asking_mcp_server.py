"""An MCP server that asks its client for too much. Each tool is named after what it asks.

It runs on the bare interpreter, speaks the protocol of 2025-06-18, and answers with what it got.
"""

import json
import sys
from pathlib import Path
from typing import Any

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MANY = 1000
TOOLS = ("often", "huge", "unshowable", "without_waiting", "sample_often", "sample_huge")


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def ask(number: int, method: str, **params: Any) -> None:
    send(id=f"ask{number}", method=method, params=params)


def answers(many: int) -> list[dict[str, Any]]:
    """Wait for this number of answers, and return them."""
    found: list[dict[str, Any]] = []
    while len(found) < many:
        message = receive()
        if "method" not in message:
            found.append(message.get("result") or message["error"])
    return found


def call(tool: str) -> str:
    match tool:
        case "often":
            for number in range(MANY):
                ask(number, "elicitation/create", message="Who?", requestedSchema=FORM)
            actions = [each["action"] for each in answers(MANY)]
            return json.dumps({each: actions.count(each) for each in sorted(set(actions))})
        case "huge":
            schema = {**FORM, "properties": {f"f{n}": {"type": "string"} for n in range(5000)}}
            ask(0, "elicitation/create", message="x" * 100_000, requestedSchema=schema)
            return str(answers(1)[0]["action"])
        case "unshowable":
            schema = {"type": "object", "properties": {"a": {"type": "object"}}}
            ask(0, "elicitation/create", message="Nested", requestedSchema=schema)
            return str(answers(1)[0]["action"])
        case "without_waiting":
            ask(0, "elicitation/create", message="Who?", requestedSchema=FORM)
            Path(sys.argv[1], "go").read_bytes()  # a pipe, so this waits
            return "left"
        case "sample_often":
            content = {"type": "text", "text": "again"}
            got = []
            for number in range(MANY):
                messages = [{"role": "user", "content": content}]
                ask(number, "sampling/createMessage", messages=messages, maxTokens=10)
                [answer] = answers(1)
                got.append("answer" if "content" in answer else answer["message"])
            return json.dumps({each: got.count(each) for each in sorted(set(got))})
        case _:
            content = {"type": "text", "text": "x" * 100_000}
            messages = [{"role": "user", "content": content}]
            ask(0, "sampling/createMessage", messages=messages, maxTokens=10)
            return str(answers(1)[0]["message"])


def main() -> None:
    while True:
        message = receive()
        match message.get("method"):
            case "initialize":
                info = {"name": "asking", "version": "1"}
                result: dict[str, Any] = {"protocolVersion": "2025-06-18", "serverInfo": info}
                send(id=message["id"], result={**result, "capabilities": {"tools": {}}})
            case "tools/list":
                tools = [{"name": each, "inputSchema": {"type": "object"}} for each in TOOLS]
                send(id=message["id"], result={"tools": tools})
            case "tools/call":
                text = call(message["params"]["name"])
                send(id=message["id"], result={"content": [{"type": "text", "text": text}]})
            case _ if "id" in message and "method" in message:
                error = {"code": -32601, "message": "No such method."}
                send(id=message["id"], error=error)


main()
