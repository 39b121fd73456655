"""An MCP server behind OAuth: the SDK's resource server and authorization server on loopback."""

import secrets
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl

SCOPE = "notes"


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Agrees to everything at once. Refresh tokens work once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.refreshed = 0
        self.seconds = 3600

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.refreshed += 1
        return self._issue(client.client_id, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError

    def _issue(self, client_id: str, resource: str | None) -> OAuthToken:
        access, refresh = (f"{kind}-{secrets.token_urlsafe(900)}" for kind in ("at", "rt"))
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=[SCOPE], resource=resource
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client_id, scopes=[SCOPE], resource=resource
        )
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.seconds, scope=SCOPE
        )

    @property
    def tokens(self) -> list[str]:
        """All that were issued and not used up."""
        return [*self.access, *self.refresh]


class Guarded:
    """A server with its `provider`. Its authorization server `registers` clients, or not."""

    def __init__(self, *, registers: bool, kind: str) -> None:
        self.provider = Provider()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.kind = kind
        self.url = f"{self.origin}/{'sse' if kind == 'sse' else 'mcp'}"
        self._mcp = MCPServer(
            "guarded",
            auth_server_provider=self.provider,
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(self.origin),
                resource_server_url=AnyHttpUrl(self.url),
                required_scopes=[SCOPE],
                validate_token_resource=True,
                client_registration_options=ClientRegistrationOptions(
                    enabled=registers, valid_scopes=[SCOPE], default_scopes=[SCOPE]
                ),
            ),
        )
        self._mcp.tool(name="whoami")(self._whoami)

    def _whoami(self) -> str:
        """Says the last token that was issued."""
        return f"You are {[*self.provider.access][-1]}."

    def add_client(self, client_id: str, redirect: str) -> None:
        """Register a client by hand."""
        self.provider.clients[client_id] = OAuthClientInformationFull(
            client_id=client_id,
            redirect_uris=[AnyUrl(redirect)],
            token_endpoint_auth_method="none",
            scope=SCOPE,
        )

    @property
    def app(self) -> Any:
        return self._mcp.sse_app() if self.kind == "sse" else self._mcp.streamable_http_app()


@contextmanager
def guarded_server(*, registers: bool = True, kind: str = "http") -> Iterator[Guarded]:
    guarded = Guarded(registers=registers, kind=kind)
    server = uvicorn.Server(uvicorn.Config(guarded.app, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [guarded.socket]})
    thread.start()
    try:
        yield guarded
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join()
        guarded.socket.close()


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def callback_after(page: str) -> str:
    """Agree on the page as the user does, and return the address that the browser goes to."""
    opener = urllib.request.build_opener(NoRedirect)
    try:
        opener.open(page, timeout=60)
    except urllib.error.HTTPError as answer:
        with answer:
            return str(answer.headers["location"])
    raise AssertionError("The page did not redirect.")


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
