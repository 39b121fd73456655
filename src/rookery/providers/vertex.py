"""Gemini and Claude on Vertex AI: the protocols of their vendors, with a project, a location and
access tokens."""

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from msgspec.structs import replace

from rookery.core.limits import Effort
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.errors import SettingsError
from rookery.providers import google_auth
from rookery.providers.exchange import Endpoint, Question, Sign, WireProvider
from rookery.providers.registry import is_loopback
from rookery.providers.wire_format import bearer

headers = bearer
_CLAUDE = "vertex-2023-10-16"
"""The value that Google and Anthropic document for `anthropic_version` on Vertex AI."""
_LOCATION = re.compile(r"[a-z0-9-]{1,60}")
_PROJECT = re.compile(r"[a-z0-9.:-]{1,100}")
_HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}


def address(template: str, environ: Mapping[str, str] = os.environ) -> str:
    """The address for the project and location of the environment."""
    location = environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    project = environ.get("GOOGLE_CLOUD_PROJECT") or _project_of_credentials(environ)
    if not project:
        raise SettingsError("No Google Cloud project. Set GOOGLE_CLOUD_PROJECT.")
    if not _LOCATION.fullmatch(location):
        raise SettingsError(f"GOOGLE_CLOUD_LOCATION is not a location: {location!r}.")
    if not _PROJECT.fullmatch(project):
        raise SettingsError(f"{project!r} is not the id of a Google Cloud project.")
    host = _HOSTS.get(location, f"{location}-aiplatform.googleapis.com")
    return template.format(host=host, project=project, location=location)


def _project_of_credentials(environ: Mapping[str, str]) -> str:
    file = google_auth.credentials_file(environ)
    if file is None:
        return ""
    credentials = google_auth.read_credentials(file)
    return credentials.quota_project_id or credentials.project_id


class VertexProvider(WireProvider):
    def __init__(self, endpoint: Endpoint, model: ModelInfo, effort: Effort) -> None:
        super().__init__(endpoint, model, effort)
        self.sign = _sign(endpoint)

    def ask(self, request: ModelRequest) -> Question:
        if self.model.id.startswith("claude-"):
            return self._ask_claude(request)
        from rookery.providers.gemini import ContentReading, body, path

        payload = body(request, self.model, self.effort)
        return f"/publishers/google{path(self.model)}", payload, ContentReading(self.model)

    def _ask_claude(self, request: ModelRequest) -> Question:
        """The Messages API, with the model in the address."""
        from rookery.providers.anthropic import MessageReading, body

        payload = {"anthropic_version": _CLAUDE, **body(request, self.model, self.effort)}
        name = quote(payload.pop("model"), safe="@")
        path = f"/publishers/anthropic/models/{name}:streamRawPredict"
        return path, payload, MessageReading(self.model)


PROVIDER = VertexProvider


def _sign(endpoint: Endpoint) -> Sign | None:
    """None if a token was given, or for a server on this machine that needs none."""
    local = is_loopback(f"//{endpoint.to.host}")
    if endpoint.to.secret or (local and not google_auth.has_credentials(os.environ)):
        return None
    tokens = google_auth.GoogleTokens(os.environ)
    endpoint.to = replace(endpoint.to, key_source=f"from {tokens.source}")
    return tokens.headers
