"""Follow the events of a session, approve edits of text files, and reject everything else."""

import asyncio
import sys

import rookery


async def main(prompt: str) -> None:
    async with rookery.open(trust=True, level="ask") as host:
        session = await host.start(prompt)
        async for event in session.events():
            match event.fact:
                case rookery.TextStreamed(text=text):
                    print(text, end="")
                case rookery.Asked(title=title) if event.is_question:
                    if title.endswith(".txt"):
                        await session.approve(event)
                        print(f"\n[approved] {title}")
                    else:
                        await session.reject(event, "Only text files may be changed.")
                        print(f"\n[rejected] {title}")
                case rookery.CompletionOffered(result=result):
                    print(f"\n[done] {result}")
                case _:
                    pass


asyncio.run(main(sys.argv[1]))
