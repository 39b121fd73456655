"""Classifies errors of providers.

The same error comes in many forms: a status, a code in the body, a phrase, JSON inside a JSON
string, or an event in a stream with status 200. `refusal` handles all of them, structure first,
phrases last. `retry_delay` reads how long a provider says to wait.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any

from msgspec import Struct

from rookery import NAME
from rookery.core.limits import KEY_NOT_ACCEPTED, KEY_NOT_GIVEN, LONGEST_WAIT, FailureKind
from rookery.errors import ProviderError
from rookery.providers.catalogue import known_models
from rookery.providers.listener import Addressee
from rookery.providers.registry import BY_KEY

_REQUEST_IDS = ("request-id", "x-request-id", "x-amzn-requestid")
SHOWN_BYTES = 2048

_DEEPEST = 8
_CODE_KEYS = frozenset(("code", "type", "status", "reason", "error_type"))

_OVERFLOW_CODES = frozenset(
    ("context_length_exceeded", "request_too_large", "exceed_context_size_error")
)
_CREDIT_CODES = frozenset(
    ("insufficient_quota", "billing_error", "billing_hard_limit_reached", "insufficient_credits")
)
_MODEL_CODES = frozenset(("model_not_found", "deploymentnotfound", "invalid_model"))
_CONTENT_CODES = frozenset(
    ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")
)
_KEY_CODES = frozenset(("api_key_invalid",))
_HISTORY_CODES = frozenset(("invalid_encrypted_content",))

_OVERFLOW = (
    r"maximum context length"
    r"|prompt is too long"
    r"|input length and .{0,3}max_tokens.{0,3} exceed"
    r"|input is too long for requested model"
    r"|input token count .{0,80}exceeds the maximum number of tokens"
    r"|exceeds the maximum allowed input length"
    r"|maximum input length of \d"
    r"|exceeds the available context size"
    r"|exceed\w* (the |your )?(model'?s )?(maximum )?context (window|length|size|limit)"
    r"|context (window|length|size|limit) (was |is |has been )?exceeded"
)
_CREDIT = (
    r"credit balance|insufficient (credits?|funds|quota|balance)|out of credits"
    r"|requires more credits|payment required"
)
_QUOTA = r"exceeded your current quota"
_MODEL = (
    r"model.{0,120}(not found|does not exist|not exist|not supported|is not available)"
    r"|(no such|unknown|not a valid|invalid) model|no endpoints found|model:"
    r"|model identifier|model version has reached the end"
)
_MODEL_IN_400 = (
    r"(not a valid|unknown|no such) model|model identifier is invalid|with on-demand throughput"
)
_KEY_IN_403 = (
    r"security token included in the request|request signature|signature (expired|not yet)"
    r"|missing authentication token|your api key is valid|bearer token has expired"
)
_HISTORY = (
    # calls without results, results without calls, the same id twice
    r"tool_use.{0,40} ids? (were|was) found without|unexpected .{0,3}tool_use_id"
    r"|tool_use.{0,12}ids? must be unique|multiple .{0,3}tool_result"
    r"|must be followed by tool messages|must be a response to a prec"
    r"|no tool (output|call) found for function call|duplicate item found"
    r"|same number of function calls and responses|number of function response parts"
    r"|expected toolResult blocks|number of toolResult blocks"
    # the order of turns and what they are made of
    r"|roles must alternate|first message must use|unexpected role|expected last role"
    r"|function call turn comes immediately after|text content blocks must"
    # reasoning that belongs to another model or conversation
    r"|(signature|encrypted content).{0,40}(thinking|could not be|invalid)"
    r"|thought.signature"
    r"|invalid .{0,3}signature|expected .{0,3}thinking|thinking.{0,60}cannot be modified"
    r"|without its required following item"
    # characters that are none
    r"|surrogate|invalid (unicode|utf-?8)|could not parse the json body"
)
_SECRET = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|AIza|ghp|hf)[-_][\w-]{12,}|\b(?:AIza|ya29\.)[\w.-]{20,}"
    r"|(?<=x-amz-security-token:)\S+|(?<=[Bb]earer )[^\s\"']{8,}|(?<=://)[^\s/@]+:[^\s/@]+(?=@)"
)

_STATUS_OF_CODE = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "timeout_error": 504,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}

_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_RESETS = (
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
)


class _ReportedFailure(Struct, frozen=True, kw_only=True):
    """A parsed error body."""

    status: int
    detail: str
    everything: str
    codes: frozenset[str]
    wait: float | None


def refusal(to: Addressee, status: int, headers: Mapping[str, str], body: Any) -> ProviderError:
    """The failure for an HTTP error response or an error event."""
    said = _take_apart(status, headers, body)
    kind = _kind(said)
    detail = redacted(said.detail, to.secret)
    if request_id := next(filter(None, map(headers.get, _REQUEST_IDS)), ""):
        detail += f" (request {plain(request_id, 80)})"
    wait = said.wait if kind is FailureKind.BUSY else None
    sentence = _sentence(kind, status, detail, to) + _long_wait(wait or 0)
    return ProviderError(sentence, kind=kind, status=status, retry_after=wait)


def status_named_in(error: Any) -> int:
    """The HTTP status of an error object; a server error if it has none."""
    for key, value in _pairs(error):
        if key in ("code", "status", "status_code") and str(value).isdigit():
            number = int(value)
            if 400 <= number <= 599:
                return number
        if isinstance(value, str) and value in _STATUS_OF_CODE:
            return _STATUS_OF_CODE[value]
    return 500


def redacted(text: str, secret: str) -> str:
    """The text without the key in use and anything that looks like a key."""
    if len(secret) >= 4:
        text = text.replace(secret, "[key]")
    return _SECRET.sub("[key]", text)


def plain(text: str, longest: int) -> str:
    """The beginning of a text on one line, with control characters escaped."""
    shown = (ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)
    return "".join(shown)[:longest]


def _take_apart(status: int, headers: Mapping[str, str], body: Any) -> _ReportedFailure:
    pairs = list(_pairs(body))
    strings = [value for _, value in pairs if isinstance(value, str)]
    codes = {
        str(value).lower()
        for key, value in pairs
        if key in _CODE_KEYS and isinstance(value, str | int)
    }
    messages = [value for key, value in pairs if key == "message" and isinstance(value, str)]
    # routers wrap what the model's own provider said: the innermost words say most
    detail = messages[-1] if messages else (strings[0] if strings else "")
    return _ReportedFailure(
        status=status,
        detail=plain(detail.strip(), SHOWN_BYTES) or "it gave no reason",
        everything="\n".join(strings),
        codes=frozenset(codes),
        wait=retry_delay(headers, [v for k, v in pairs if k == "retryDelay"]),
    )


def _pairs(body: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every leaf of a JSON value with its key, including JSON inside strings."""
    if depth > _DEEPEST:
        return
    match body:
        case dict():
            for name, value in body.items():
                yield from _pairs(value, str(name), depth + 1)
        case list():
            for value in body:
                yield from _pairs(value, key, depth + 1)
        case str() if body.lstrip()[:1] in ("{", "["):
            try:
                inner = json.loads(body)
            except (ValueError, RecursionError):
                yield key, body
            else:
                yield from _pairs(inner, key, depth + 1)
        case _:
            yield key, body


def _kind(said: _ReportedFailure) -> FailureKind:
    """The order of the rules is their priority: codes first, then phrases."""
    status, codes, text = said.status, said.codes, said.everything
    about_request = status in (400, 413, 422) or status >= 500
    if codes & _OVERFLOW_CODES or status == 413:
        return FailureKind.OVERFLOW
    if codes & _CREDIT_CODES or status == 402:
        return FailureKind.NO_CREDIT
    if codes & _CONTENT_CODES:
        return FailureKind.REFUSED
    if codes & _HISTORY_CODES:
        return FailureKind.BROKEN_HISTORY
    if codes & _MODEL_CODES or (status == 404 and _names_a_model(said)):
        return FailureKind.NO_MODEL
    if about_request and _says(_OVERFLOW, text):
        return FailureKind.OVERFLOW
    if status in (400, 403, 429) and _means_no_credit(said):
        return FailureKind.NO_CREDIT
    if status in (400, 422) and _says(_HISTORY, text):
        return FailureKind.BROKEN_HISTORY
    if status == 400 and _says(_MODEL_IN_400, text):
        return FailureKind.NO_MODEL
    bad_key = codes & _KEY_CODES or (status == 403 and _says(_KEY_IN_403, text))
    if status == 401 or bad_key:
        return FailureKind.BAD_KEY
    if status in (408, 409, 424, 425, 429) or status >= 500:
        return FailureKind.BUSY
    return FailureKind.REJECTED


def _says(phrases: str, text: str) -> bool:
    """Patterns are compiled here, when there is an error, as most runs have none."""
    return bool(re.search(phrases, text, re.IGNORECASE))


def _names_a_model(said: _ReportedFailure) -> bool:
    return "not_found_error" in said.codes or _says(_MODEL, said.everything)


def _means_no_credit(said: _ReportedFailure) -> bool:
    # the sentence about the quota also comes with limits per minute; those name a wait
    quota = said.wait is None and _says(_QUOTA, said.everything)
    return bool(quota or _says(_CREDIT, said.everything))


def _sentence(kind: FailureKind, status: int, detail: str, to: Addressee) -> str:
    name, clause = to.provider, detail.rstrip(".")
    match kind:
        case FailureKind.OVERFLOW:
            return f"The request is too long for {to.model}: {detail}"
        case FailureKind.NO_CREDIT:
            return f"The account at {name} has no credit: {detail}"
        case FailureKind.BAD_KEY if not to.secret and not to.key_source:
            return f"{name} {KEY_NOT_GIVEN}: {clause}. Run: {NAME} auth {name}"
        case FailureKind.BAD_KEY:
            return f"{name} {KEY_NOT_ACCEPTED} {to.key_source}: {clause}. {_another_key(to)}"
        case FailureKind.NO_MODEL:
            return f"{name} has no model {to.model}: {clause}. {_suggestion(to)}"
        case FailureKind.BROKEN_HISTORY:
            return f"{name} rejected the conversation: {detail}"
        case FailureKind.REFUSED:
            return f"{name} declined the request: {detail}"
        case FailureKind.BUSY:
            return f"{name} is busy or overloaded ({status}): {detail}"
        case _ if status == 404:
            return (
                f"Nothing found at that address of {to.host} (404): {clause}. Check the base URL."
            )
        case _ if status == 403 and to.secret:
            return (
                f"{name} rejected the request (403): {clause}. The key {to.key_source} may not be "
                f"allowed to do this. {_another_key(to)}"
            )
        case _:
            return f"{name} rejected the request ({status}): {detail}"


def _another_key(to: Addressee) -> str:
    """How to use another key: a variable comes before a stored one."""
    variable = to.key_source.removeprefix("from ")
    if variable.isupper():
        return f"Set another in {variable}, or unset it and run: {NAME} auth {to.provider}"
    return f"Store another with: {NAME} auth {to.provider}"


_CHOOSE = "Choose one with --model, or with /model in a session"


def _suggestion(to: Addressee) -> str:
    from difflib import get_close_matches

    elsewhere = [each for each in BY_KEY if to.model in known_models(each)]
    if elsewhere and to.model not in to.known_models:
        return f"It is a model of {elsewhere[0]}: use --provider {elsewhere[0]}"
    others = [known for known in to.known_models if known != to.model]
    close = get_close_matches(to.model, others, n=3, cutoff=0.4)
    if close:
        return f"Did you mean {', '.join(close)}? {_CHOOSE}"
    return f"{NAME} models {to.provider}{to.address_flag} lists its models. {_CHOOSE}"


def _long_wait(seconds: float) -> str:
    """A wait that is too long to try again; others are shown while they last."""
    return f". Try again in {ceil(seconds / 60):,} minutes" if seconds > LONGEST_WAIT else ""


def retry_delay(
    headers: Mapping[str, str], delays: Sequence[object] = (), *, now: datetime | None = None
) -> float | None:
    """Seconds to wait; None if no usable time is given. Times in the past are not usable.

    `delays` are durations such as "17s" from the body.
    """
    now = now or datetime.now(UTC)
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if (named := _seconds(headers.get("retry-after", ""), now)) is not None:
        return named
    if spans := _known(_span(str(delay)) for delay in delays):
        return max(spans)
    exhausted = [reset for reset, left in _RESETS if headers.get(left, "").strip() == "0"]
    candidates = exhausted or [reset for reset, _ in _RESETS]
    resets = _known(_moment_or_span(headers.get(reset, ""), now) for reset in candidates)
    if not resets:
        return None
    return max(resets) if exhausted else min(resets)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _seconds(text: str, now: datetime) -> float | None:
    if not text.strip()[:1].isalpha():
        return _number(text)
    try:
        return _ahead(parsedate_to_datetime(text), now)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _ahead(moment: datetime, now: datetime) -> float | None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = (aware - now).total_seconds()
    return seconds if seconds > 0 else None


def _moment_or_span(text: str, now: datetime) -> float | None:
    if (number := _number(text)) is not None:
        return _epoch_or_seconds(number, now)
    if (span := _span(text)) is not None:
        return span
    try:
        return _ahead(datetime.fromisoformat(text), now)
    except ValueError:
        return None


def _epoch_or_seconds(number: float, now: datetime) -> float | None:
    """Some servers give a timestamp, in seconds or milliseconds; others the remaining seconds."""
    if number > 1e11:
        number /= 1000
    if number > 1e9:
        number -= now.timestamp()
    return number if number > 0 else None


def _span(text: str) -> float | None:
    """Seconds of "1h2m3.5s" or "20ms"."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    try:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    except ValueError:
        return None
    total = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return total if total > 0 else None
