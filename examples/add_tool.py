"""Give the model a tool. The docstring tells it what the tool does."""

import asyncio
import sys

import rookery

STOCK = {"bolts": 120, "nuts": 0}


@rookery.tool(reads_only=True)
async def stock(part: str) -> str:
    """Return how many pieces of a part are in stock."""
    return f"{STOCK.get(part, 0)} {part}"


@rookery.tool
def order(part: str, pieces: int = 100) -> str:
    """Order a part."""
    STOCK[part] = STOCK.get(part, 0) + pieces
    return f"Ordered {pieces} {part}."


async def approve_orders(question: rookery.TaskEvent) -> bool:
    assert isinstance(question.fact, rookery.Asked)
    print("asked:", question.fact.title)
    return question.fact.title == "Use the tool order"


async def main(prompt: str) -> None:
    async with rookery.open(trust=True, tools=[stock, order]) as host:
        result = await host.run(prompt, answer=approve_orders)
        print(result.text, STOCK)


asyncio.run(main(sys.argv[1]))
