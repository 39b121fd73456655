"""Send one prompt and print the result. Actions that need approval are rejected."""

import asyncio
import sys

import rookery


async def main(prompt: str) -> None:
    async with rookery.open() as host:
        result = await host.run(prompt)
        print(result.status, result.text or result.reason, sep=": ")


asyncio.run(main(sys.argv[1]))
