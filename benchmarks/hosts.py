"""Hosts in one process, with a session each: a program that `run.py` measures.

python benchmarks/hosts.py BASE_URL FOLDER [BASE_URL FOLDER …]
"""

import asyncio
import sys
from collections.abc import Sequence

import rookery


async def work(base_url: str, folder: str) -> None:
    options = {"provider": "openai", "model": "bench", "level": "auto", "trust": True}
    async with rookery.open(folder, settings={"base_url": base_url}, **options) as host:
        result = await host.run("Do the work.")
    if result.status != "completed":
        raise RuntimeError(f"{folder}: {result.status}, {result.reason}")


async def main(words: Sequence[str]) -> None:
    await asyncio.gather(*map(work, words[::2], words[1::2]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
