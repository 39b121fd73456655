"""An MCP server behind OAuth: the SDK's resource server and authorization server on loopback.

The SDK is imported when a server starts, because importing it takes long in each worker."""

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Guarded:
    """A server with its `provider`. Its authorization server `registers` clients, or not."""

    def __init__(self, *, registers: bool, kind: str) -> None:
        from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
        from mcp.server.mcpserver import MCPServer
        from pydantic import AnyHttpUrl

        from support.mcp_authorization import SCOPE, Provider

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
        from mcp.shared.auth import OAuthClientInformationFull
        from pydantic import AnyUrl

        from support.mcp_authorization import SCOPE

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
    import uvicorn

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
