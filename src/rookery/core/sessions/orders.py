"""What a session's supervisor has to do toward the process after an event."""

from typing import TypeAlias

from rookery.core.asks import Reply
from rookery.core.values import value


@value
class Letter:
    """Text of the user, with its pictures as data URIs or paths."""

    text: str = ""
    images: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.images)


@value
class StartTask:
    """Start a process of this generation and give it the letters as a new task."""

    generation: int
    letters: tuple[Letter, ...]


@value
class Respawn:
    """Start a process of this generation that takes the session up again, as a new task if none
    was stored yet, and give it the letters to go on with. One of an earlier generation that
    still runs is ended first: two must never write to one task."""

    generation: int
    letters: tuple[Letter, ...]


@value
class Answer:
    ask_ts: int
    reply: Reply
    letter: Letter


@value
class AnswerAgain:
    """The process that asked is gone, and its approval would be worth nothing. Give this answer to
    the next one, if that asks the very same."""

    ask_ts: int
    reply: Reply
    letter: Letter


@value
class Deliver:
    """Queue these on the engine, in this order."""

    letters: tuple[Letter, ...]


@value
class Cancel:
    """Ask the process to cancel its task; press harder if it does not."""


@value
class Terminate:
    """End the process; nothing it still says counts."""


Order: TypeAlias = StartTask | Respawn | Answer | AnswerAgain | Deliver | Cancel | Terminate
