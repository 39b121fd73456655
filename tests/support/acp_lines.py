"""A client of `rookery acp` that writes lines of its own, also those that no SDK would send."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from llm_server import LlmServer
from support.terminal_session import COMMAND, PATIENCE, Installed, at

LONGEST = 2**26
Message = dict[str, Any]


class LineClient:
    """Keeps the notifications that come while it waits for something else."""

    def __init__(self, process: Process) -> None:
        assert process.stdout
        self.process = process
        self.updates: list[Message] = []
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._last = 0

    async def send(self, line: bytes) -> None:
        assert self.process.stdin
        await self.process.stdin.send(line + b"\n")

    async def post(self, method: str, /, **params: Any) -> int:
        """Send a request, and return its id."""
        self._last += 1
        asked = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        await self.send(json.dumps(asked).encode())
        return self._last

    async def notify(self, method: str, /, **params: Any) -> None:
        told = {"jsonrpc": "2.0", "method": method, "params": params}
        await self.send(json.dumps(told).encode())

    async def reply(self, asked: Message, **answer: Any) -> None:
        await self.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}).encode())

    async def next(self, wanted: Callable[[Message], object]) -> Message:
        """The next message that fits."""
        with anyio.fail_after(PATIENCE):
            while True:
                message = json.loads(await self._lines.receive_until(b"\n", LONGEST))
                if wanted(message):
                    return message
                if message.get("method") == "session/update":
                    self.updates.append(message["params"]["update"])

    async def answer_to(self, number: int) -> Message:
        return await self.next(lambda each: each.get("id") == number and "method" not in each)

    async def asked(self, method: str) -> Message:
        """The next request of the agent."""
        return await self.next(lambda each: each.get("method") == method)

    async def call(self, method: str, /, **params: Any) -> Message:
        return await self.answer_to(await self.post(method, **params))

    async def prompt(self, session: str, text: str) -> int:
        block = {"type": "text", "text": text}
        return await self.post("session/prompt", sessionId=session, prompt=[block])

    async def new(self, cwd: object, **more: Any) -> str:
        answer = await self.call("session/new", cwd=str(cwd), mcpServers=[], **more)
        return str(answer["result"]["sessionId"])


@asynccontextmanager
async def line_client(
    rookery: Installed, server: LlmServer, *flags: str, **capabilities: Any
) -> AsyncIterator[LineClient]:
    """Start the agent, and check that it ends with its input."""
    command = [COMMAND, "acp", *at(server), *flags]
    async with await anyio.open_process(
        command, env=rookery.environ, cwd=rookery.workspace, stderr=None
    ) as process:
        client = LineClient(process)
        try:
            await client.call("initialize", protocolVersion=1, clientCapabilities=capabilities)
            yield client
            assert process.stdin
            await process.stdin.aclose()
            with anyio.fail_after(PATIENCE):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
