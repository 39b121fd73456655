"""What is sent with every answer, and the one shape that every refusal has."""

from http import HTTPStatus
from typing import TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
ON_EVERY_ANSWER: Headers = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NOT_STORED = (b"cache-control", b"no-store")
_BY_STATUS: dict[HTTPStatus, Headers] = {
    HTTPStatus.METHOD_NOT_ALLOWED: [(b"allow", b"GET, HEAD, POST")],
    HTTPStatus.UNAUTHORIZED: [(b"www-authenticate", b"Bearer")],
}
"""What the standard wants beside them."""


def headers_of_refusal(status: HTTPStatus) -> Headers:
    """Nothing in it comes from the request, and there is no body that could."""
    return [
        *ON_EVERY_ANSWER,
        NOT_STORED,
        *_BY_STATUS.get(status, []),
        (b"content-length", b"0"),
        (b"connection", b"close"),
    ]


def refusal(status: HTTPStatus) -> bytes:
    """The same, as it stands on the wire, for what never becomes a request."""
    lines = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode())]
    lines += [b"%s: %s" % header for header in headers_of_refusal(status)]
    return b"\r\n".join([*lines, b"", b""])
