"""A request that is tried again and again is one row that counts."""

import json
from collections.abc import Iterable, Sequence

from rookery.core.message import Message

_STARTED, _DELAYED = "api_req_started", "api_req_retry_delayed"


def tries(messages: Iterable[Message]) -> dict[int, int]:
    """Of rows that tell of a failed try, how often it was tried: that of the last one tells it,
    the others are given 0."""
    told: dict[int, int] = {}
    run: list[Message] = []
    for message in messages:
        if not _is_try(message) or _is_first(message):
            told |= _told(run)
            run = []
        if _is_try(message):
            run.append(message)
    return told | _told(run)


def last_tries(messages: Sequence[Message]) -> Sequence[Message]:
    """The rows at the end that tell of one request."""
    begin = len(messages)
    while begin and _is_try(messages[begin - 1]):
        begin -= 1
        if _is_first(messages[begin]):
            break
    return messages[begin:]


def _told(run: Sequence[Message]) -> dict[int, int]:
    failed = sum(map(_has_failed, run))
    seen = [each.ts for each in run if each.say == _DELAYED or _has_failed(each)]
    return dict.fromkeys(seen, 0) | ({seen[-1]: max(1, failed)} if seen else {})


def _is_try(message: Message) -> bool:
    return message.say in (_STARTED, _DELAYED)


def _is_first(message: Message) -> bool:
    return message.say == _STARTED and '"attempt"' not in (message.text or "")


def _has_failed(message: Message) -> bool:
    if message.say != _STARTED or "streamingFailedMessage" not in (message.text or ""):
        return False
    return bool(json.loads(message.text or "{}").get("streamingFailedMessage"))
