"""The facts of a task with a long history."""

from collections.abc import Iterator

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Fact,
    RequestStarted,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
)

WORDS = "It **divides** by ten instead of a hundred:\n\n- fix `prices.py`\n- run the tests\n"
ROWS_A_TURN = 3


def long_past(rows: int, last: str) -> Iterator[Fact]:
    """That many rows of requests, answers and calls, then the end."""
    yield TaskOpened(text="Do a lot", workspace="/home/ada/shop")
    for turn in range(rows // ROWS_A_TURN):
        call = ToolCall(id=f"c{turn}", name="read_file", arguments={"path": f"a{turn}.py"})
        yield RequestStarted(request_id=f"r{turn}", model="m")
        usage = Usage(tokens_in=1_000, tokens_out=100, cost=0.01)
        yield AssistantSpoke(request_id=f"r{turn}", blocks=(Text(text=WORDS), call), usage=usage)
        yield ToolStarted(
            call_id=f"c{turn}",
            tool="read_file",
            title=f"Read a{turn}.py",
            text='{"tool": "readFile"}',
        )
        yield ToolFinished(call_id=f"c{turn}", text="1 | x = 1\n" * 20)
    yield CompletionOffered(result=last)
    yield Asked(ask_id="end", ask=AskKind.COMPLETION_RESULT)
