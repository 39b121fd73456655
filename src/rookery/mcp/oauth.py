"""OAuth as MCP servers use it: discovery, registration, authorization code with PKCE, refresh.

Everything that a server and its authorization server say is untrusted. `oauth_requests` decides
which addresses are used. No error text contains what was sent or received.
"""

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.limits import KIB
from rookery.first_use import prepared
from rookery.mcp.config import ServerDefinition
from rookery.mcp.oauth_requests import OAuthProblem, OAuthRequests

LONGEST_SCOPE = 2000
LONGEST_TOKEN = 16 * KIB
EARLY = 30
"""Seconds before its end that a token is refreshed."""
_RESOURCE = "/.well-known/oauth-protected-resource"
_ISSUERS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_FIELD = r'{}=(?:"([^"]+)"|([^\s,]+))'
_SAFE_CODE = re.compile(r"[a-z_]{1,40}")

T = TypeVar("T")


class ExpiredGrant(OAuthProblem):
    """The authorization server no longer accepts the code or the refresh token."""


class ProtectedResource(Struct, frozen=True):
    """What a server says about itself (RFC 9728)."""

    resource: str
    authorization_servers: list[str] = []
    scopes_supported: list[str] = []


class AuthorizationServer(Struct, frozen=True, kw_only=True):
    """What an authorization server says about itself (RFC 8414)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    code_challenge_methods_supported: list[str] = []
    scopes_supported: list[str] = []
    authorization_response_iss_parameter_supported: bool = False


class RegisteredClient(Struct, frozen=True, omit_defaults=True):
    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


class _Granted(Struct, frozen=True):
    access_token: str
    token_type: str = "Bearer"
    expires_in: float | None = None
    refresh_token: str | None = None


class StoredSignIn(Struct, frozen=True, kw_only=True):
    """All that is needed to use and refresh a sign-in. It has no repr, because of its tokens."""

    token_endpoint: str
    client: RegisteredClient
    resource: str
    access_token: str = ""
    refresh_token: str = ""
    expires: float = 0.0
    """Seconds since the epoch; 0 if unknown."""

    def __repr__(self) -> str:
        return "StoredSignIn()"

    @property
    def is_expired(self) -> bool:
        return bool(self.expires) and time.time() > self.expires - EARLY

    @property
    def secrets(self) -> tuple[str, ...]:
        texts = (self.access_token, self.refresh_token, self.client.client_secret or "")
        return tuple(filter(None, texts))

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


def decode_sign_in(text: str) -> StoredSignIn | None:
    """A stored sign-in; None if there is none or it cannot be read."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=prepared(StoredSignIn))
    except (ValueError, RecursionError):
        return None


class Authorization(Struct, frozen=True, kw_only=True):
    """One attempt to sign in, and its secrets."""

    server: AuthorizationServer
    client: RegisteredClient
    redirect: str
    resource: str
    scope: str
    verifier: str
    state: str

    def __repr__(self) -> str:
        return f"Authorization({self.server.issuer!r})"

    @property
    def page(self) -> str:
        """The address on which the user agrees."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        fields = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": self.resource,
            **({"scope": self.scope} if self.scope else {}),
        }
        if "offline_access" in self.scope.split():
            fields["prompt"] = "consent"  # OpenID Connect requires it
        endpoint = self.server.authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields, quote_via=quote)}"


class OAuthClient:
    """Requests on behalf of one MCP server."""

    def __init__(self, server: ServerDefinition) -> None:
        self._server = server
        self._requests = OAuthRequests(server.url)
        self._own = self._requests.own

    async def authorize(self, redirect: str) -> Authorization:
        """Find the authorization server and register with it. Raises `OAuthProblem`."""
        resource, challenge = await self._protected_resource()
        issuers = resource.authorization_servers if resource else [self._own.origin]
        if not issuers:
            raise OAuthProblem("The server names no authorization server.")
        server = await self._authorization_server(issuers[0])
        return Authorization(
            server=server,
            client=await self._client(server, redirect),
            redirect=redirect,
            resource=resource.resource if resource else self._identifier,
            scope=self._scope(server, resource, challenge),
            verifier=secrets.token_urlsafe(64),
            state=secrets.token_urlsafe(32),
        )

    @property
    def _identifier(self) -> str:
        """The server's url without its query, which may be secret."""
        return f"{self._own.origin}{urlsplit(self._server.url).path}"

    async def exchange(self, attempt: Authorization, code: str) -> StoredSignIn:
        """Get the tokens for a code. Raises `OAuthProblem`."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect,
            "code_verifier": attempt.verifier,
        }
        about = StoredSignIn(
            token_endpoint=attempt.server.token_endpoint,
            client=attempt.client,
            resource=attempt.resource,
        )
        return await self._granted(about, form)

    async def refresh(self, stored: StoredSignIn) -> StoredSignIn:
        """Raises `ExpiredGrant` if the user must sign in again, else `OAuthProblem`."""
        form = {"grant_type": "refresh_token", "refresh_token": stored.refresh_token}
        return await self._granted(stored, form)

    async def _protected_resource(self) -> tuple[ProtectedResource | None, str]:
        """The server's metadata, and its challenge. Servers of 2025-03 have no metadata."""
        status, challenge, _ = await self._requests.send(
            "GET", self._server.url, dict(self._server.headers)
        )
        challenge = challenge if status in (401, 403) else ""
        path = urlsplit(self._server.url).path.rstrip("/")
        named = _field(challenge, "resource_metadata")
        places = [f"{self._own.origin}{_RESOURCE}{path}", f"{self._own.origin}{_RESOURCE}"]
        if named and self._requests.check(named).origin == self._own.origin:
            places.insert(0, named)
        for place in dict.fromkeys(places):
            status, _, body = await self._requests.send("GET", place)
            if status != 200:
                continue
            found = _decoded(body, ProtectedResource, "metadata of the server")
            if not self._covers(found.resource):
                raise OAuthProblem("The server's metadata is about another server.")
            return found, challenge
        return None, challenge

    def _covers(self, resource: str) -> bool:
        """Whether a resource is the server, or a folder that it is in."""
        if self._requests.check(resource).origin != self._own.origin:
            return False
        path = urlsplit(resource).path.rstrip("/")
        return f"{urlsplit(self._server.url).path}/".startswith(f"{path}/")

    async def _authorization_server(self, issuer: str) -> AuthorizationServer:
        origin, path = self._requests.check(issuer).origin, urlsplit(issuer).path.rstrip("/")
        places = [f"{origin}{kind}{path}" for kind in _ISSUERS]
        if path:
            places.append(f"{origin}{path}{_ISSUERS[1]}")
        for place in places:
            status, _, body = await self._requests.send("GET", place)
            if status != 200:
                continue
            found = _decoded(body, AuthorizationServer, "metadata of the authorization server")
            if found.issuer.rstrip("/") != issuer.rstrip("/"):
                raise OAuthProblem("The authorization server's metadata names another issuer.")
            if "S256" not in found.code_challenge_methods_supported:
                raise OAuthProblem("The authorization server does not support PKCE with S256.")
            for endpoint in (found.authorization_endpoint, found.token_endpoint):
                self._requests.check(endpoint)
            return found
        raise OAuthProblem(f"{origin} has no metadata of an authorization server.")

    async def _client(self, server: AuthorizationServer, redirect: str) -> RegisteredClient:
        """The configured client, or a new one."""
        if configured := self._server.oauth.client_id:
            secret = self._server.oauth.client_secret
            method = "client_secret_post" if secret else "none"
            return RegisteredClient(configured, secret or None, method)
        if not server.registration_endpoint:
            raise OAuthProblem(
                "The authorization server does not register clients. Create one there, and set "
                f'"oauth": {{"clientId": "..."}} in the definition of {self._server.name}.'
            )
        wanted = {
            "client_name": NAME,
            "software_version": VERSION,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        status, _, body = await self._requests.send(
            "POST", server.registration_endpoint, json=wanted
        )
        if status not in (200, 201):
            raise OAuthProblem(f"The registration was refused (status {status}).")
        return _decoded(body, RegisteredClient, "registration")

    def _scope(
        self, server: AuthorizationServer, resource: ProtectedResource | None, challenge: str
    ) -> str:
        scope = self._server.oauth.scope or _field(challenge, "scope")
        if not scope and resource:
            scope = " ".join(resource.scopes_supported)
        offline = "offline_access"  # without it, OpenID Connect grants no refresh
        if scope and offline in server.scopes_supported and offline not in scope.split():
            scope = f"{scope} {offline}"
        return scope if len(scope) <= LONGEST_SCOPE and scope.isprintable() else ""

    async def _granted(self, stored: StoredSignIn, form: Mapping[str, str]) -> StoredSignIn:
        """The sign-in with the tokens that this form gets."""
        client, headers = stored.client, {}
        fields = {**form, "client_id": client.client_id, "resource": stored.resource}
        if client.client_secret and client.token_endpoint_auth_method == "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif client.client_secret:
            fields["client_secret"] = client.client_secret
        status, _, body = await self._requests.send(
            "POST", stored.token_endpoint, headers, form=fields
        )
        if status == 200:
            granted = _decoded(body, _Granted, "tokens")
            usable = granted.token_type.lower() == "bearer" and _is_token(granted.access_token)
            if usable and (not granted.refresh_token or _is_token(granted.refresh_token)):
                return msgspec.structs.replace(
                    stored,
                    access_token=granted.access_token,
                    refresh_token=granted.refresh_token or stored.refresh_token,
                    expires=time.time() + granted.expires_in if granted.expires_in else 0.0,
                )
            raise OAuthProblem("The authorization server sent no usable token.")
        code = _error_code(body)
        kind = ExpiredGrant if code in ("invalid_grant", "invalid_client") else OAuthProblem
        raise kind(f"The authorization server gave no token ({code or f'status {status}'}).")


def _decoded(body: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(body, type=prepared(kind))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # the parser's message may quote a token
        raise OAuthProblem(f"The {what} cannot be read.") from None


class _OAuthError(Struct, frozen=True):
    error: str = ""


def _error_code(body: bytes) -> str:
    try:
        code = msgspec.json.decode(body, type=prepared(_OAuthError)).error
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ""
    return code if _SAFE_CODE.fullmatch(code) else ""


def _is_token(text: str) -> bool:
    usable = text.isascii() and text.isprintable() and " " not in text
    return bool(text) and usable and len(text) <= LONGEST_TOKEN


def _field(challenge: str, name: str) -> str:
    """A field of a WWW-Authenticate header."""
    found = re.search(_FIELD.format(name), challenge[: 8 * KIB], re.IGNORECASE)
    return (found[1] or found[2]) if found else ""
