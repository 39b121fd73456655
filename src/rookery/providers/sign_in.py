"""Sign in with OpenRouter by its documented PKCE flow, which returns a key.

The user agrees in a browser, and the browser sends a code to a server that listens on this machine
while the command runs. A code is worthless without our verifier. The path of the callback
is secret, so no other page can answer in the user's place. Without a browser on this machine the
user pastes the code.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import anyio
import httpx2
from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.platform.browser_callback import (
    PATIENCE,
    Callback,
    is_code,
    open_listener,
    port_of,
    target_of,
    wait_for_callback,
)
from rookery.providers.http_by_proxy import client_of_environment
from rookery.providers.wire_format import beginning, json_or_text, table, words

BASE_URL = "https://openrouter.ai/api/v1"
EXCHANGE_SECONDS = 30.0
LARGEST = 64 * KIB
"""Bytes that are read of an answer."""
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

    def pasted(self, text: str) -> Callback | None:
        """The code in a pasted text, which may be the whole address of the callback."""
        if "/" not in text:
            return Callback(text) if is_code(text) else None
        return self.visited(target_of(text))

    def visited(self, target: str) -> Callback | None:
        path, _, query = target.partition("?")
        if not secrets.compare_digest(path.encode(), f"/{self.state}".encode()):
            return None
        fields = parse_qs(query)
        if is_code(code := fields.get("code", [""])[0]):
            return Callback(code)
        if error := fields.get("error"):
            return Callback(
                problem=f"OpenRouter refused the sign-in: {harmless_line(error[0])[:100]}."
            )
        return None


async def sign_in(
    base_url: str, tell: Callable[[str], None], *, typed: int, patience: float = PATIENCE
) -> str:
    """Sign in and return the key. `typed` is the file that the user types into. Raises
    `SettingsError` if no key was given."""
    async with await open_listener() as listener:
        attempt = SignIn(
            base_url, port_of(listener), secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        )
        result = await wait_for_callback(
            listener, attempt.address, attempt, tell, typed=typed, patience=patience
        )
    if result.code:
        return await exchanged(attempt, result.code)
    raise SettingsError(f"{result.problem} {AGAIN}")


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
    key = words(table(json_or_text(answer)).get("key")) if status == 200 else ""
    if not key:
        raise SettingsError(f"{host} sent no key (status {status}). {AGAIN}")
    return key


async def _post(url: str, body: Mapping[str, str]) -> tuple[int, bytes]:
    """The status and the beginning of the answer."""
    async with (
        client_of_environment(timeout=EXCHANGE_SECONDS, follow_redirects=False) as http,
        http.stream("POST", url, json=body) as response,
    ):
        return response.status_code, await beginning(response.aiter_bytes(), LARGEST)
