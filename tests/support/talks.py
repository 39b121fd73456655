"""Conversations of any shape, for tests of what is sent to providers."""

from hypothesis import strategies as st

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.engine.ports.model import ToolSpec

PICTURE = Image(media_type="image/png", data="aGk=")
READ = ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {}})

ids = st.sampled_from(["c1", "c2", "c:3", "x" * 90])
said = st.text(max_size=6) | st.sampled_from(["", " ", "\n", "\ud800"])
thoughts = st.builds(
    Thinking,
    text=said,
    signature=st.sampled_from(["", "{}", "[]", "x", '{"text":[[1,2,"S"]]}', '{"call":"S"}']),
    source=st.sampled_from(["", "anthropic", "openai", "responses", "gemini", "bedrock"]),
)


def user(*blocks: Block) -> Turn:
    return Turn("user", blocks)


def model(*blocks: Block) -> Turn:
    return Turn("assistant", blocks)


def text(words: str) -> Text:
    return Text(text=words)


@st.composite
def talks(draw: st.DrawFn) -> list[Turn]:
    """What the fold over a log guarantees: alternating turns, each call answered at once."""
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 4))):
        owed = [b for b in (turns[-1].blocks if turns else ()) if isinstance(b, ToolCall)]
        results = [
            ToolResult(
                call_id=c.id, text=draw(said), images=draw(st.sampled_from([(), (PICTURE,)]))
            )
            for c in owed
        ]
        spoken = draw(st.lists(st.builds(Text, text=said) | st.just(PICTURE), max_size=2))
        turns.append(Turn("user", (*results, *spoken, Text(text=f"turn {number}"))))
        chosen = draw(st.lists(ids, unique=True, max_size=3))
        calls = [
            ToolCall(id=f"{number}{call_id}", name=draw(said), arguments={"x": draw(said)})
            for call_id in chosen
        ]
        words = draw(st.lists(st.builds(Text, text=said) | thoughts, max_size=3))
        turns.append(Turn("assistant", (*words, *calls)))
    owed = [b for b in turns[-1].blocks if isinstance(b, ToolCall)]
    answers = (ToolResult(call_id=c.id, text="ok") for c in owed)
    turns.append(Turn("user", (*answers, Text(text="last"))))
    return turns
