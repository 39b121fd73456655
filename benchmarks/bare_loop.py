"""A minimal agent loop to compare rookery with: ask, print, run the tools, ask again.

    python benchmarks/bare_loop.py BASE_URL OPENING

OPENING is a file with the first request, so that both send the same. The loop stores nothing, asks
for no approval and checks nothing: the difference is the overhead of rookery.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

Json = dict[str, Any]


async def work(base_url: str, request: Json) -> None:
    messages: list[Json] = request["messages"]
    # plain HTTP to localhost needs neither TLS nor a proxy, and both take time to set up
    async with httpx2.AsyncClient(timeout=None, verify=False, trust_env=False) as http:
        calls: list[Json] = []
        while not any(call["function"]["name"] == "attempt_completion" for call in calls):
            text, calls = await ask(http, f"{base_url}/chat/completions", request)
            messages.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            for call in calls:
                result = run(call["function"]["name"], json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def ask(http: httpx2.AsyncClient, url: str, request: Json) -> tuple[str, list[Json]]:
    """Stream one answer, print its text, and return the text and the tool calls."""
    text: list[str] = []
    calls: list[Json] = []
    arguments: list[list[str]] = []
    async with http.stream("POST", url, json=request) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                delta = choice["delta"]
                if piece := delta.get("content"):
                    text.append(piece)
                    sys.stdout.write(piece)
                for call in delta.get("tool_calls", ()):
                    if "id" in call:
                        calls.append({key: call[key] for key in ("id", "type", "function")})
                        arguments.append([])
                    arguments[call["index"]].append(call["function"].get("arguments", ""))
    for call, pieces in zip(calls, arguments, strict=True):
        call["function"]["arguments"] = "".join(pieces)
    return "".join(text), calls


def run(name: str, given: Json) -> str:
    match name:
        case "read_file":
            lines = Path(given["path"]).read_text(encoding="utf-8").split("\n")
            first = given["offset"] - 1
            shown = enumerate(lines[first : first + given["limit"]], given["offset"])
            return "\n".join(f"{number} | {line}" for number, line in shown)
        case "execute_command":
            done = subprocess.run(
                given["command"],
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            return f"Exit code: {done.returncode}\n{done.stdout}"
        case "edit":
            file = Path(given["file_path"])
            text = file.read_text(encoding="utf-8")
            if text.count(given["old_string"]) != 1:
                return "The text is not there, or not only once."
            file.write_text(text.replace(given["old_string"], given["new_string"]))
            return "Done."
        case "write_to_file":
            Path(given["path"]).write_text(given["content"], encoding="utf-8")
            return "Done."
        case _:
            return "Shown."


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
