"""Sign in with OpenRouter by its documented PKCE flow, which returns a key.

The user agrees in a browser, and the browser sends a code to a server that listens on this machine
while the command runs. A code is worthless without our verifier. The path of the callback
is secret, so no other page can answer in the user's place. Without a browser on this machine the
user pastes the code.
"""

import base64
import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import anyio
import anyio.to_thread
import httpx2
import msgspec
from anyio.abc import ByteStream, SocketAttribute
from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.providers.wire_format import beginning

BASE_URL = "https://openrouter.ai/api/v1"
PATIENCE = 300.0
"""Seconds until a sign-in times out."""
REMINDER = 60.0
"""Seconds between two lines about the time left."""
REQUEST_SECONDS = 10.0
EXCHANGE_SECONDS = 30.0
LONGEST_CODE = 512
LARGEST = 64 * KIB
"""Bytes that are read of a request or an answer."""
AGAIN = "Nothing was stored. Run the command again to retry."


class SignIn(Struct, frozen=True):
    """One sign-in: where it happens, and its secrets."""

    base_url: str
    port: int
    verifier: str
    state: str

    @property
    def address(self) -> str:
        """The page on which the user agrees."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        asked = {
            # the name, not the number: OpenRouter documents http://localhost for local programs
            "callback_url": f"http://localhost:{self.port}/{self.state}",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{self.base_url.removesuffix('/api/v1')}/auth?{urlencode(asked, quote_via=quote)}"

    def pasted_code(self, text: str) -> str:
        """The code in a pasted text, which may be the whole address of the callback; empty if it
        has no code of this sign-in."""
        if "/" not in text:
            return text if _is_code(text) else ""
        return self.code_in(text[text.find("/", text.find("://") + 3) :])

    def code_in(self, target: str) -> str:
        """The code in the path and query of a callback; empty if it is not ours."""
        path, _, query = target.partition("?")
        if not secrets.compare_digest(path.encode(), f"/{self.state}".encode()):
            return ""
        code = parse_qs(query).get("code", [""])[0]
        return code if _is_code(code) else ""


def _is_code(text: str) -> bool:
    return (
        0 < len(text) <= LONGEST_CODE and text.isascii() and text.isprintable() and " " not in text
    )


async def sign_in(
    base_url: str, tell: Callable[[str], None], *, typed: int, patience: float = PATIENCE
) -> str:
    """Sign in and return the key. `typed` is the file that the user types into. Raises
    `SettingsError` if no key was given."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    except OSError as error:
        raise SettingsError(f"Cannot listen on localhost for the sign-in: {error}.") from error
    async with listener:
        port = listener.extra(SocketAttribute.local_port)
        attempt = SignIn(base_url, port, secrets.token_urlsafe(48), secrets.token_urlsafe(24))
        tell(f"Open this address to sign in:\n\n  {attempt.address}\n")
        waiting = _CodeReceiver(attempt, tell)
        with anyio.move_on_after(patience):
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, waiting.answer)
                group.start_soon(waiting.read_pasted, typed)
                group.start_soon(waiting.remind, patience)
                group.start_soon(open_browser, attempt.address, os.environ)
                await waiting.ended.wait()
                group.cancel_scope.cancel()
    if waiting.code:
        return await exchanged(attempt, waiting.code)
    raise SettingsError(f"{waiting.problem or 'The sign-in timed out.'} {AGAIN}")


class _CodeReceiver:
    """Waits for the code from the browser or the keyboard. The first one counts."""

    def __init__(self, attempt: SignIn, tell: Callable[[str], None]) -> None:
        self._attempt = attempt
        self._tell = tell
        self.code = ""
        self.problem = ""
        self.ended = anyio.Event()

    async def answer(self, stream: ByteStream) -> None:
        """Answer one request of the browser."""
        with anyio.move_on_after(REQUEST_SECONDS):
            try:
                async with stream:
                    await stream.send(self._response_to(await _target(stream)))
            except (OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                pass

    async def read_pasted(self, typed: int) -> None:
        self._tell(
            "You can open it on another machine. The last page will not load there: copy its\n"
            "address, which begins with http://localhost, and paste it here. Ctrl-C cancels."
        )
        while True:
            await anyio.wait_readable(typed)
            line = os.read(typed, LARGEST)
            if not line:
                self._end(problem="The sign-in was cancelled.")
                return
            text = line.decode(errors="replace").strip()
            if code := self._attempt.pasted_code(text):
                self._end(code=code)
            elif text:
                self._tell("That is not the address of this sign-in. Paste the whole address.")

    async def remind(self, patience: float) -> None:
        while patience > REMINDER:
            await anyio.sleep(REMINDER)
            patience -= REMINDER
            self._tell(f"Waiting for the sign-in: {patience:.0f} seconds left.")

    def _response_to(self, target: str) -> bytes:
        if code := self._attempt.code_in(target):
            self._end(code=code)
            return _response(
                "200 OK", "Signed in. Go back to the terminal; you can close this page."
            )
        if target.startswith(f"/{self._attempt.state}?error="):
            reason = parse_qs(target.partition("?")[2]).get("error", ["no reason given"])[0]
            self._end(problem=f"OpenRouter refused the sign-in: {harmless_line(reason)[:100]}.")
            return _response("200 OK", "Not signed in. Go back to the terminal.")
        return _response("404 Not Found", "Not found.")

    def _end(self, *, code: str = "", problem: str = "") -> None:
        if not self.ended.is_set():
            self.code, self.problem = code, problem
            self.ended.set()


async def _target(stream: ByteStream) -> str:
    """Path and query of a GET request; empty for anything else."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < LARGEST:
        read += await stream.receive()
    method, _, rest = read.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    return rest.rpartition(" ")[0] if method == "GET" else ""


def _response(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


async def open_browser(address: str, environ: Mapping[str, str]) -> None:
    """Open the address if there is a graphical browser here. One in the terminal would take it
    over, and one at the other end of SSH would be slow."""
    graphical = sys.platform == "darwin" or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    if graphical and not environ.get("SSH_CONNECTION"):
        import webbrowser

        await anyio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)


async def exchanged(attempt: SignIn, code: str) -> str:
    """The key for a code. Raises `SettingsError` if there is none."""
    body = {"code": code, "code_verifier": attempt.verifier, "code_challenge_method": "S256"}
    host = urlsplit(attempt.base_url).netloc
    try:
        with anyio.fail_after(EXCHANGE_SECONDS):
            status, answer = await _post(f"{attempt.base_url}/auth/keys", body)
    except (httpx2.RequestError, httpx2.InvalidURL, TimeoutError) as error:
        reason = harmless_line(str(error))[:200] or "no answer"
        raise SettingsError(f"{host} cannot be reached ({reason}). {AGAIN}") from error
    if status == 403:
        raise SettingsError(f"{host} did not accept the code. {AGAIN}")
    key = _key_in(answer) if status == 200 else ""
    if not key:
        raise SettingsError(f"{host} sent no key (status {status}). {AGAIN}")
    return key


async def _post(url: str, body: Mapping[str, str]) -> tuple[int, bytes]:
    """The status and the beginning of the answer."""
    async with (
        httpx2.AsyncClient(timeout=EXCHANGE_SECONDS, follow_redirects=False) as http,
        http.stream("POST", url, json=body) as response,
    ):
        return response.status_code, await beginning(response.aiter_bytes(), LARGEST)


class _GrantedKey(Struct):
    key: str


def _key_in(answer: bytes) -> str:
    try:
        return msgspec.json.decode(answer, type=_GrantedKey).key
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
