"""Use a model of your own: this one repeats the last message."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import rookery


class Echo:
    model = rookery.ModelInfo(id="echo", provider="echo")

    @asynccontextmanager
    async def stream(
        self, request: rookery.ModelRequest
    ) -> AsyncIterator[AsyncIterator[rookery.Chunk]]:
        said = [b.text for b in request.turns[0].blocks if isinstance(b, rookery.Text)]
        yield self._chunks(said[0])

    async def _chunks(self, text: str) -> AsyncIterator[rookery.Chunk]:
        yield rookery.TextChunk(f"You said: {text}")
        yield rookery.StopChunk(rookery.StopReason.END)


async def main(prompt: str) -> None:
    async with rookery.open(provider=Echo()) as host:
        result = await host.run(prompt)
        print(result.text)


asyncio.run(main(sys.argv[1]))
