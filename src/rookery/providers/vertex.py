"""Gemini on Vertex AI: the same protocol, with a project, a location and access tokens."""

import os
import re
from collections.abc import Mapping

from msgspec.structs import replace

from rookery.core.limits import Effort
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.errors import SettingsError
from rookery.providers import google_auth
from rookery.providers.exchange import Endpoint, Exchange, Sign
from rookery.providers.gemini import ContentReading, body, path
from rookery.providers.openai import headers as headers
from rookery.providers.registry import is_loopback

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


class VertexProvider:
    def __init__(self, endpoint: Endpoint, model: ModelInfo, effort: Effort) -> None:
        self.model = model
        self._endpoint = endpoint
        self._effort: Effort = effort
        self._sign = _sign(endpoint)

    def stream(self, request: ModelRequest) -> Exchange:
        payload = body(request, self.model, self._effort)
        reading = ContentReading(self.model)
        return self._endpoint.ask(path(self.model), payload, reading, sign=self._sign)

    async def aclose(self) -> None:
        await self._endpoint.aclose()


PROVIDER = VertexProvider


def _sign(endpoint: Endpoint) -> Sign | None:
    """None if a token was given, or for a server on this machine that needs none."""
    local = is_loopback(f"//{endpoint.to.host}")
    if endpoint.to.secret or (local and not google_auth.has_credentials(os.environ)):
        return None
    tokens = google_auth.GoogleTokens(os.environ)
    endpoint.to = replace(endpoint.to, key_source=f"from {tokens.source}")
    return tokens.headers
