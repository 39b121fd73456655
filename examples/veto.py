"""A hook that refuses edits of lock files at every level."""

import asyncio
import sys

import rookery


async def lock_files(call: rookery.ToolCall, action: rookery.Action) -> rookery.Ruling | None:
    if any(change.path.endswith(".lock") for change in action.changes):
        return rookery.deny("Do not edit lock files. Run the package manager.")
    return None


async def main(prompt: str) -> None:
    async with rookery.open(trust=True, level="edits", hooks=[lock_files]) as host:
        session = await host.start(prompt)
        async for event in session.events():
            if isinstance(event.fact, rookery.ToolFinished):
                print(event.fact.ending.value, event.fact.text)


asyncio.run(main(sys.argv[1]))
