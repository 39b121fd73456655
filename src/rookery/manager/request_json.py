"""Requests to the manager as JSON, and back: an object whose `kind` is the name of the class."""

from typing import Any, TypeVar, cast, get_args

import msgspec

from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.manager.requests import REQUESTS
from rookery.protocol.codec import answer_to_json, kind_of, read_request, said_in

T = TypeVar("T")

KINDS: dict[str, type[Any]] = {kind_of(cls): cls for cls in REQUESTS}


def kind_of_request(request: Asking[Any]) -> str:
    return kind_of(type(request))


def request_to_json(request: Asking[Any]) -> bytes:
    return answer_to_json({"kind": kind_of_request(request), **said_in(request)})


def request_from_json(fields: dict[str, Any]) -> Asking[Any]:
    """Refused with the reason if it is none."""
    if "kind" not in fields:
        raise CommandRejected('A request needs a "kind", such as list_sessions. Nothing was done.')
    cls = KINDS.get(str(fields["kind"]))
    if cls is None:
        raise CommandRejected(f"There is no request {str(fields['kind'])[:80]!r}.")
    return cast(Asking[Any], read_request(fields, cls, "request"))


def reply_to_json(reply: object) -> bytes:
    return answer_to_json(reply)


def reply_from_json(request: Asking[T], said: object) -> T:
    """What a request was answered with, out of decoded JSON. Raises `ValueError`."""
    (asking,) = type(request).__orig_bases__  # type: ignore[attr-defined]
    try:
        return cast(T, msgspec.convert(said, get_args(asking)[0]))
    except msgspec.ValidationError as error:
        raise ValueError(
            f"The answer to {kind_of_request(request)} is malformed: {error}"
        ) from error
