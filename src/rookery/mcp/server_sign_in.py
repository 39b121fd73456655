"""Sign-ins at MCP servers: the one that the user makes in a browser, and its tokens in use.

A sign-in belongs to a server by its name, its URL and whether it is the user's or a project's, so a
project cannot use one of the user's by naming the same URL.
"""

import hashlib
import secrets
from collections.abc import Callable
from typing import Protocol
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from rookery import NAME
from rookery.core.hosts import web_address
from rookery.errors import SettingsError, ToolError
from rookery.mcp.config import ServerDefinition
from rookery.mcp.oauth import Authorization, ExpiredGrant, OAuthClient, StoredSignIn, decode_sign_in
from rookery.mcp.oauth_requests import OAuthProblem
from rookery.mcp.results import ServerFailure, visible_line
from rookery.platform.browser_callback import (
    PATIENCE,
    Callback,
    is_code,
    open_listener,
    port_of,
    target_of,
    wait_for_callback,
)

CALLBACK = "/callback"
NOTHING = "Nothing was stored. Try again."


class TokenKeeper(Protocol):
    """Stores tokens. All methods raise `SettingsError` with a sentence."""

    def get(self, name: str) -> str:
        """The entry; empty if there is none."""
        ...

    def put(self, name: str, text: str) -> str:
        """Store an entry, and return the name of the place."""
        ...

    def forget(self, name: str) -> bool:
        """Remove an entry. Returns whether there was one."""
        ...


class ServerSignInNeeded(ToolError):
    """The server rejected the request until the user signs in."""


class Credentials:
    """The tokens of one server. They are refreshed when they end, or the server rejects them."""

    def __init__(self, server: ServerDefinition, tokens: TokenKeeper) -> None:
        self._server = server
        self._tokens = tokens
        self._stored: StoredSignIn | None = None
        self._loaded = False
        self._lock = anyio.Lock()
        self.needed = False
        """Whether the server wants the user to sign in."""

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._stored.secrets if self._stored else ()

    async def token(self) -> str:
        """The access token; empty if there is none. Raises `ServerFailure`."""
        if not self._server.signs_in:
            return ""
        async with self._lock:
            if not self._loaded:
                self._stored = await self._load()
                self._loaded = True
            if self._stored and self._stored.is_expired:
                await self._refresh()
            return self._stored.access_token if self._stored else ""

    async def renewed(self, rejected: str) -> bool:
        """Whether there is a token other than the one that the server rejected."""
        async with self._lock:
            current = self._stored
            if current is None or current.access_token != rejected:
                return current is not None
            await self._refresh()
            return self._stored is not None and self._stored.access_token != rejected

    def reload(self) -> None:
        """Use what is stored now: the user has signed in."""
        self.needed = self._loaded = False

    def failure(self) -> ServerFailure:
        """The server rejected the request. The next one uses what is stored then."""
        self.needed, self._loaded = True, False
        return ServerFailure(f"It wants you to sign in. Run: {NAME} mcp login {self._server.name}")

    async def _refresh(self) -> None:
        """Refresh the tokens; the user must sign in again if that is refused. Another process may
        have refreshed them: a refresh token often works only once."""
        used, latest = self._stored, await self._load()
        if latest and used and latest.access_token == used.access_token:
            latest = await self._exchanged(latest) if latest.refresh_token else None
        self._stored = latest

    async def _exchanged(self, old: StoredSignIn) -> StoredSignIn | None:
        try:
            new = await OAuthClient(self._server).refresh(old)
        except ExpiredGrant:
            latest = await self._load()
            if latest and latest.access_token != old.access_token:
                return latest
            await self._save(replace(old, refresh_token="", expires=1))
            return None
        except OAuthProblem as error:
            raise ServerFailure(f"The sign-in could not be refreshed. {error}") from error
        await self._save(new)
        return new

    async def _load(self) -> StoredSignIn | None:
        name = entry_of(self._server)
        try:
            return decode_sign_in(await anyio.to_thread.run_sync(self._tokens.get, name))
        except SettingsError as error:
            raise ServerFailure(str(error)) from error

    async def _save(self, stored: StoredSignIn) -> None:
        name, text = entry_of(self._server), stored.encode()
        try:
            await anyio.to_thread.run_sync(self._tokens.put, name, text)
        except SettingsError as error:
            raise ServerFailure(str(error)) from error


class _Visit:
    """Reads the visit that ends a sign-in."""

    def __init__(self, attempt: Authorization) -> None:
        self._attempt = attempt

    def pasted(self, text: str) -> Callback | None:
        return self.visited(target_of(text)) if "/" in text else None

    def visited(self, target: str) -> Callback | None:
        path, _, query = target.partition("?")
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        state = fields.get("state", "")
        if path != CALLBACK or not secrets.compare_digest(
            state.encode(), self._attempt.state.encode()
        ):
            return None
        server, issuer = self._attempt.server, fields.get("iss")
        required = server.authorization_response_iss_parameter_supported
        if (issuer or required) and issuer != server.issuer:
            return Callback(problem="Another authorization server sent the answer. It was ignored.")
        if is_code(code := fields.get("code", "")):
            return Callback(code)
        reason = visible_line(fields.get("error", "no code"), 100)
        return Callback(problem=f"The sign-in was refused: {reason}.")


async def sign_in(
    server: ServerDefinition,
    tokens: TokenKeeper,
    tell: Callable[[str], None],
    *,
    typed: int | None = None,
    patience: float = PATIENCE,
) -> str:
    """Let the user sign in with a browser, and return where the tokens are stored. The caller has
    checked that the user approved the definition. Raises `SettingsError`."""
    if not server.signs_in:
        raise SettingsError(
            f"{server.name} has no sign-in. Only servers with a url and no Authorization header "
            "have one."
        )
    try:
        async with await open_listener(server.oauth.callback_port) as listener:
            redirect = f"http://127.0.0.1:{port_of(listener)}{CALLBACK}"
            client = OAuthClient(server)
            attempt = await client.authorize(redirect)
            tell(f"{server.name} uses the sign-in of {web_address(attempt.server.issuer).host}.")
            found = await wait_for_callback(
                listener, attempt.page, _Visit(attempt), tell, typed=typed, patience=patience
            )
            if not found.code:
                raise OAuthProblem(found.problem)
            stored = await client.exchange(attempt, found.code)
    except OAuthProblem as error:
        raise SettingsError(f"{str(error).rstrip('.')}. {NOTHING}") from error
    return await anyio.to_thread.run_sync(tokens.put, entry_of(server), stored.encode())


def entry_of(server: ServerDefinition) -> str:
    """The name of a server's entry in the key store."""
    scope = msgspec.json.encode((server.source, server.name, server.url))
    return f"mcp-{hashlib.sha256(scope).hexdigest()[:32]}"
