"""The proxy that the user's own environment names: ours goes through it.

It resolves names itself, so of a host that is reached this way only the name was judged.
"""

import base64
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from rookery.platform.http_proxy import (
    CONNECT_SECONDS,
    LONGEST_HEAD,
    Dialled,
    OutOfReach,
    Request,
)

USUAL_PORT = 80
ANSWER_SECONDS = 60.0


class Upstream(Struct, frozen=True):
    host: str
    port: int
    authorization: str = ""

    @property
    def fields(self) -> tuple[bytes, ...]:
        name = b"Proxy-Authorization: Basic "
        return (name + self.authorization.encode("ascii"),) if self.authorization else ()


def upstream_for(request: Request, environ: Mapping[str, str]) -> Upstream | None:
    """Raises `OutOfReach` if the proxy is of a kind that ours cannot go through."""
    kind = "https" if request.is_tunnel else "http"
    url = _variable(environ, f"{kind}_proxy") or _variable(environ, "all_proxy")
    if not url or _is_excepted(request.host, _variable(environ, "no_proxy")):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise OutOfReach(
            f"Your environment sets a {parts.scheme} proxy. Only http:// proxies are supported."
        )
    return Upstream(
        parts.hostname, parts.port or USUAL_PORT, _basic(parts.username, parts.password)
    )


async def dial_through(upstream: Upstream, request: Request) -> Dialled:
    with anyio.fail_after(CONNECT_SECONDS):
        stream = await anyio.connect_tcp(upstream.host, upstream.port)
    name = f"[{request.host}]" if ":" in request.host else request.host
    if not request.is_tunnel:
        target = f"http://{name}:{request.port}{request.path}"
        return Dialled(stream, request.head(target=target, fields=upstream.fields))
    try:
        return Dialled(stream, said=await _tunnel(stream, f"{name}:{request.port}", upstream))
    except BaseException:
        await anyio.aclose_forcefully(stream)
        raise


async def _tunnel(stream: anyio.abc.SocketStream, target: str, upstream: Upstream) -> bytes:
    """What came behind the proxy's yes."""
    first = f"CONNECT {target} HTTP/1.1\r\nHost: {target}".encode("ascii")
    await stream.send(b"\r\n".join([first, *upstream.fields]) + b"\r\n\r\n")
    buffered = BufferedByteReceiveStream(stream)
    with anyio.fail_after(ANSWER_SECONDS):
        head = await buffered.receive_until(b"\r\n\r\n", LONGEST_HEAD)
    _, _, status = head.partition(b"\r\n")[0].partition(b" ")
    if not status.startswith(b"200"):
        raise OSError(f"the proxy set in your environment refused it: {status.decode('latin-1')}")
    return buffered.buffer


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_excepted(host: str, names: str) -> bool:
    for name in (each.strip().lower().lstrip("*").lstrip(".") for each in names.split(",")):
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return "*" in names.split(",")


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    both = f"{unquote(user)}:{unquote(password or '')}"
    return base64.b64encode(both.encode()).decode("ascii")
