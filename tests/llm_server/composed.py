"""A parsed answer: its pieces, and the settings for all of it."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from llm_server.parts import (
    WORDS,
    Auto,
    Block,
    Call,
    ContentType,
    EachByte,
    Framing,
    Inline,
    NoUsage,
    Part,
    Piece,
    Postscript,
    Redacted,
    Refuse,
    Split,
    Stop,
    Together,
    Trailing,
    Usage,
)

Group: TypeAlias = tuple[Block, ...]


class Composed(Struct, frozen=True):
    """`lead` comes before the vendor's first event; a group's deltas come interleaved."""

    lead: tuple[Inline, ...]
    content: tuple[Group | Inline, ...]
    usages: tuple[Usage, ...]
    stop: Stop
    framing: Framing
    each_byte: bool
    content_type: str | None
    postscript: str | None
    trailing: bytes

    @property
    def blocks(self) -> Iterator[Block]:
        for group in self.content:
            if isinstance(group, tuple):
                yield from group


def compose(parts: Sequence[Part], position: int) -> Composed:
    """The answer at `position` of its script, which is what ids are made from."""
    lead: list[Inline] = []
    content: list[Group | Inline] = []
    usages: list[Usage] = []
    silent_usage = False
    stop: Stop | None = None
    split, framing, each_byte = WORDS, Framing(), False
    media_type: str | None = None
    after: str | None = None
    trailing = b""
    calls = 0
    for part in parts:
        match part:
            case Usage():
                usages.append(part)
            case NoUsage():
                silent_usage = True
            case Stop():
                stop = part
            case Split():
                split = part
            case Framing():
                framing = part
            case EachByte():
                each_byte = True
            case ContentType(value=media_type):
                pass
            case Postscript(text=after):
                pass
            case Trailing(data=trailing):
                pass
            case Together(calls=group):
                content.append(
                    tuple(_cut(_named(c, position, calls + n), split) for n, c in enumerate(group))
                )
                calls += len(group)
            case Call():
                content.append((_cut(_named(part, position, calls), split),))
                calls += 1
            case _ if isinstance(part, Block):
                content.append((_cut(part, split),))
            case _:
                (content if content else lead).append(part)
    return Composed(
        lead=tuple(lead),
        content=tuple(content),
        usages=() if silent_usage else tuple(usages) or (Usage(),),
        stop=stop or _usual_stop(content),
        framing=framing,
        each_byte=each_byte,
        content_type=media_type,
        postscript=after,
        trailing=trailing,
    )


def _usual_stop(content: Sequence[Group | Inline]) -> Stop:
    blocks = [block for group in content if isinstance(group, tuple) for block in group]
    if any(isinstance(block, Refuse) for block in blocks):
        return Stop("refused")
    return Stop("calls" if any(isinstance(block, Call) for block in blocks) else "end")


def pieces_of(block: Block) -> tuple[Piece, ...]:
    return () if isinstance(block, Redacted) else block.pieces


def text_of(block: Block) -> str:
    return "".join(piece for piece in pieces_of(block) if isinstance(piece, str))


def _named(call: Call, position: int, nth: int) -> Call:
    return replace(call, id=f"call_{position}_{nth}") if call.id is Auto.ID else call


def _cut(block: Block, split: Split) -> Block:
    """A single text is split; several texts are sent as the script wrote them."""
    if isinstance(block, Redacted):
        return block
    if sum(isinstance(piece, str) for piece in block.pieces) != 1:
        return block
    pieces: list[Piece] = []
    for piece in block.pieces:
        pieces += split.cut(piece) if isinstance(piece, str) else [piece]
    return replace(block, pieces=tuple(pieces))
