"""One row of what a client shows of a task: something said, or something asked."""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.blocks import Image
from rookery.core.folds.partial_text import CallText, Pieces
from rookery.core.intent_questions import IntentQuestion

Content: TypeAlias = str | Pieces | CallText | None
Outcome: TypeAlias = Literal["", "denied", "failed"]


class Message(Struct, frozen=True, kw_only=True):
    """One row, named by its `ts`. Its `text` is put together when it is read.

    An ask that was answered or withdrawn is `answered`: nobody waits for it any more.
    `seq` is that of the event that made the row. A call that came to nothing says so in its
    `outcome`: the user or a rule did not allow it, or it failed.
    """

    ts: int
    type: Literal["say", "ask"]
    say: str | None = None
    ask: str | None = None
    content: Content = None
    images: tuple[Image, ...] = ()
    partial: bool = False
    answered: bool = False
    outcome: Outcome = ""
    seq: int = 0
    ask_id: str = ""
    call_id: str = ""
    digest: str = ""
    title: str = ""
    diff: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    rule: str = ""
    governance: IntentQuestion | None = None

    @property
    def text(self) -> str | None:
        return self.content.text if isinstance(self.content, Pieces | CallText) else self.content

    @property
    def open(self) -> bool:
        """It is still arriving, or still waits for an answer."""
        return self.partial or (self.type == "ask" and not self.answered)
