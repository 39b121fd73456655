"""What a session's supervisor has to do toward the process after an event."""

from typing import TypeAlias

from msgspec import Struct

from rookery.core.asks import Reply


class Letter(Struct, frozen=True, kw_only=True):
    """Text of the user, with its pictures as data URIs or paths."""

    text: str = ""
    images: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.images)


class StartTask(Struct, frozen=True, kw_only=True):
    """Start a process of this generation and give it the letters as a new task."""

    generation: int
    letters: tuple[Letter, ...]


class Respawn(Struct, frozen=True, kw_only=True):
    """Start a process of this generation that takes the session up again, as a new task if none
    was stored yet, and give it the letters to go on with. One of an earlier generation that
    still runs is ended first: two must never write to one task."""

    generation: int
    letters: tuple[Letter, ...]


class Answer(Struct, frozen=True, kw_only=True):
    ask_ts: int
    reply: Reply
    letter: Letter


class AnswerAgain(Struct, frozen=True, kw_only=True):
    """The process that asked is gone, and its approval would be worth nothing. Give this answer to
    the next one, if that asks the very same."""

    ask_ts: int
    reply: Reply
    letter: Letter


class Deliver(Struct, frozen=True, kw_only=True):
    """Queue these on the engine, in this order."""

    letters: tuple[Letter, ...]


class Cancel(Struct, frozen=True, kw_only=True):
    """Ask the process to cancel its task; press harder if it does not."""


class Terminate(Struct, frozen=True, kw_only=True):
    """End the process; nothing it still says counts."""


Order: TypeAlias = StartTask | Respawn | Answer | AnswerAgain | Deliver | Cancel | Terminate
