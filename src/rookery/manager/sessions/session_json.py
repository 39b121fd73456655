"""A session as it is spelled in the list on disk: one object, its keys in camel case."""

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from rookery.manager.sessions.orders import Letter
from rookery.manager.sessions.session_record import SessionRecord

MailState = Literal["queued", "sending", "sent", "failed"]


class Mail(Struct, frozen=True, kw_only=True):
    """Words on their way to the engine. The number makes sure that they arrive once."""

    number: int
    letter: Letter
    state: MailState = "queued"
    retries: int = 0
    problem: str = ""


class KeptSession(Struct, frozen=True, kw_only=True):
    record: SessionRecord
    announced: bool = False
    """The engine has had the prompt."""
    taken: int = 0
    """How many letters have left the outbox of the machine."""
    mail: tuple[Mail, ...] = ()


def session_to_json(kept: KeptSession) -> dict[str, Any]:
    said = msgspec.to_builtins(kept)
    record = said.pop("record")
    spelled: dict[str, Any] = _renamed({**record, **said}, _camel)
    return spelled


def session_from_json(said: object) -> KeptSession | None:
    """None if it cannot be understood. Keys that are not known do not matter."""
    plain = _renamed(said, _snake)
    if not isinstance(plain, dict):
        return None
    try:
        record = msgspec.convert(plain, SessionRecord)
        return msgspec.convert({**plain, "record": record}, KeptSession)
    except (msgspec.ValidationError, RecursionError):
        return None


def _renamed(said: Any, spell: Any) -> Any:
    if isinstance(said, dict):
        return {spell(key): _renamed(each, spell) for key, each in said.items()}
    return [_renamed(each, spell) for each in said] if isinstance(said, list) else said


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)
