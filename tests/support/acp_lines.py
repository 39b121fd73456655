"""A client of `rookery acp` that writes raw lines, including ones that no SDK would send."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

from llm_server import LlmServer
from support.terminal_session import PATIENCE, Installed, at
from support.warm_start import WarmProcess, start_warm

LONGEST = 2**26
Message = dict[str, Any]


class _Received(ByteReceiveStream):
    """A reader as a stream of anyio, with a small buffer."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if data := await self._reader.read(max_bytes):
            return data
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        pass


class Agent:
    """A process of `rookery acp` with its pipes."""

    def __init__(self, process: WarmProcess) -> None:
        self.process = process
        self.reader = asyncio.StreamReader()

    async def connect(self, into: int, out: int) -> None:
        loop = asyncio.get_running_loop()
        self._said, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.reader), os.fdopen(out, "rb", 0)
        )
        given, flow = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(into, "wb", 0)
        )
        self.writer = asyncio.StreamWriter(given, flow, None, loop)

    def stop_reading(self) -> None:
        self._said.close()

    async def ended(self) -> int:
        """The exit code, once it has ended with its input."""
        self.writer.close()
        return await anyio.to_thread.run_sync(self.process.wait, PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.stop_reading()
        self.writer.close()


@asynccontextmanager
async def acp_agent(rookery: Installed, server: LlmServer, *flags: str) -> AsyncIterator[Agent]:
    """Start the agent, and check that it ends with its input."""
    (given, into), (out, said) = os.pipe(), os.pipe()
    command = ["acp", *at(server), *flags]
    folder = str(rookery.workspace)
    process = start_warm(command, rookery.environ, folder, streams=(given, said, 2))
    os.close(given)
    os.close(said)
    agent = Agent(process)
    await agent.connect(into, out)
    try:
        yield agent
        assert await agent.ended() == 0
    finally:
        agent.close()


class LineClient:
    """Keeps the notifications that come while it waits for something else."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.updates: list[Message] = []
        self._lines = BufferedByteReceiveStream(_Received(agent.reader))
        self._last = 0

    async def send(self, line: bytes) -> None:
        self.agent.writer.write(line + b"\n")
        await self.agent.writer.drain()

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
        """The next matching message."""
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
    async with acp_agent(rookery, server, *flags) as agent:
        client = LineClient(agent)
        await client.call("initialize", protocolVersion=1, clientCapabilities=capabilities)
        yield client
