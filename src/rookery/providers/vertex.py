"""Gemini and Claude on Vertex AI: the protocols of their vendors, with a project, a location and
access tokens.

Tokens come from a credentials file, or from the metadata server of a machine in Google's cloud,
which is asked only if the environment says that this is one. They are kept in memory only, until a
minute before they expire.
"""

import json
import os
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import KEY_NOT_ACCEPTED, KIB, Effort, FailureKind
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.errors import ProviderError, SettingsError
from rookery.first_use import prepared
from rookery.providers.exchange import Endpoint, Question, Sign, WireProvider, unsigned
from rookery.providers.registry import is_loopback
from rookery.providers.wire_format import bearer, beginning, json_or_text, table

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
TOKEN_URL = "https://oauth2.googleapis.com/token"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
OTHER_WAYS = (
    "Or sign in with: gcloud auth application-default login; or set GOOGLE_APPLICATION_CREDENTIALS "
    "to the file of a service account."
)
BY_HAND = "Set VERTEX_ACCESS_TOKEN to what this prints: gcloud auth print-access-token"

_METADATA_HOST = "metadata.google.internal"
_METADATA_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_IN_GOOGLES_CLOUD = ("GCE_METADATA_HOST", "K_SERVICE", "CLOUD_RUN_JOB", "GAE_ENV")
_LARGEST = 64 * KIB
_EARLY = 60.0
"""Seconds before its end at which a token is no longer used."""
_SECONDS = 10.0


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
    file = credentials_file(environ)
    if file is None:
        return ""
    credentials = read_credentials(file)
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


def _sign(endpoint: Endpoint) -> Sign:
    """Signs nothing if a token was given, or for a server on this machine that needs none."""
    local = is_loopback(f"//{endpoint.to.host}")
    if endpoint.to.secret or (local and not has_credentials(os.environ)):
        return unsigned
    tokens = GoogleTokens(os.environ)
    endpoint.to = replace(endpoint.to, key_source=f"from {tokens.source}")
    return tokens.headers


class GoogleCredentials(Struct, frozen=True, kw_only=True):
    """The fields of a credentials file that are used."""

    type: str = ""
    client_id: str = ""
    client_secret: str = ""
    refresh_token: str = ""
    quota_project_id: str = ""
    project_id: str = ""
    client_email: str = ""
    private_key: str = ""
    private_key_id: str = ""
    token_uri: str = TOKEN_URL

    def __repr__(self) -> str:
        return f"GoogleCredentials({self.type!r})"


def has_credentials(environ: Mapping[str, str]) -> bool:
    return credentials_file(environ) is not None or _in_googles_cloud(environ)


def credentials_file(environ: Mapping[str, str]) -> Path | None:
    """The file that the environment names, or that of gcloud if it exists."""
    if named := environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return Path(named).expanduser()
    home = Path(environ.get("HOME") or Path.home())
    folder = Path(environ.get("CLOUDSDK_CONFIG") or home / ".config" / "gcloud")
    file = folder / "application_default_credentials.json"
    return file if file.is_file() else None


def _in_googles_cloud(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in _IN_GOOGLES_CLOUD)


def read_credentials(file: Path) -> GoogleCredentials:
    """Raises `SettingsError` if the file cannot be used."""
    try:
        with file.open("rb") as opened:
            credentials = msgspec.json.decode(
                opened.read(_LARGEST), type=prepared(GoogleCredentials)
            )
    except OSError as error:
        why = error.strerror or error
        raise SettingsError(f"Cannot read Google credentials from {file}: {why}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not a Google credentials file.") from error
    if credentials.type not in ("authorized_user", "service_account"):
        kind = credentials.type[:60] or "unknown"
        raise SettingsError(f"{file}: credentials of type {kind} are not supported. {BY_HAND}")
    if credentials.type == "service_account" and not find_spec("cryptography"):
        raise SettingsError(
            "A Google service account needs the package cryptography: pip install cryptography"
        )
    uri = credentials.token_uri
    if not (uri.startswith("https://") or (uri.startswith("http://") and is_loopback(uri))):
        raise SettingsError(f"The token_uri in {file} does not begin with https://.")
    return credentials


class GoogleTokens:
    """Gets a token when one is needed, and replaces it before it expires."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises `SettingsError` if there are no usable credentials. Sends nothing yet."""
        self._file = credentials_file(environ)
        self._credentials = read_credentials(self._file) if self._file else None
        if self._credentials is None and not _in_googles_cloud(environ):
            raise SettingsError(f"No Google credentials. Set VERTEX_ACCESS_TOKEN. {OTHER_WAYS}")
        self._metadata_host = environ.get("GCE_METADATA_HOST") or _METADATA_HOST
        self._token, self._until = "", 0.0

    @property
    def source(self) -> str:
        """Where the tokens come from, for messages."""
        return str(self._file or self._metadata_host)

    async def headers(self, url: str, body: bytes) -> Mapping[str, str]:
        """The headers of a request, with a token that is valid now."""
        if time.time() >= self._until - _EARLY:
            self._token, self._until = await self._fresh()
        project = self._credentials.quota_project_id if self._credentials else ""
        billed = {"x-goog-user-project": project} if project else {}
        return {"authorization": f"Bearer {self._token}", **billed}

    async def _fresh(self) -> tuple[str, float]:
        """A token, and when it ends."""
        if self._credentials is None:
            answer = await self._ask(
                "GET",
                f"http://{self._metadata_host}{_METADATA_PATH}",
                headers={"metadata-flavor": "Google"},
            )
        else:
            answer = await self._ask(
                "POST", self._credentials.token_uri, data=_grant(self._credentials)
            )
        text, seconds = answer.get("access_token"), answer.get("expires_in")
        if not (isinstance(text, str) and text.isascii() and text.isprintable() and text):
            raise ProviderError(f"{self._place} sent no token.", kind=FailureKind.BUSY)
        lasts = seconds if isinstance(seconds, int | float) else 0
        return text, time.time() + min(lasts, 86_400)

    @property
    def _place(self) -> str:
        uri = self._credentials.token_uri if self._credentials else f"//{self._metadata_host}"
        return urlsplit(uri).netloc

    async def _ask(self, method: str, url: str, **sent: Any) -> Mapping[str, Any]:
        import httpx2

        # a proxy has no way to the metadata server, nor to this machine
        outside = self._credentials is not None and not is_loopback(url)
        try:
            with anyio.fail_after(_SECONDS):
                async with (
                    httpx2.AsyncClient(timeout=_SECONDS, trust_env=outside) as http,
                    http.stream(method, url, **sent) as response,
                ):
                    data = await beginning(response.aiter_bytes(), _LARGEST)
                    status = response.status_code
        except (httpx2.RequestError, httpx2.InvalidURL, TimeoutError) as error:
            raise ProviderError(
                f"Cannot get a token: {self._place} cannot be reached ({type(error).__name__}).",
                kind=FailureKind.OFFLINE,
            ) from error
        answer = table(json_or_text(data))
        if status >= 400:
            raise self._refused(status, answer)
        return answer

    def _refused(self, status: int, answer: Mapping[str, Any]) -> ProviderError:
        from rookery.providers.provider_errors import plain, redacted

        if status >= 500 or status == 429:
            return ProviderError(
                f"{self._place} is busy ({status}).", kind=FailureKind.BUSY, status=status
            )
        why = answer.get("error_description") or answer.get("error") or status
        secret = self._credentials.refresh_token if self._credentials else ""
        detail = redacted(plain(str(why), 300), secret)
        user = self._credentials is not None and self._credentials.type == "authorized_user"
        todo = "Run: gcloud auth application-default login" if user else BY_HAND
        return ProviderError(
            f"Google {KEY_NOT_ACCEPTED} from {self.source}: {detail}. {todo}",
            kind=FailureKind.BAD_KEY,
            status=status,
        )


def _grant(credentials: GoogleCredentials) -> dict[str, str]:
    if credentials.type == "authorized_user":
        return {
            "grant_type": "refresh_token",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
            "refresh_token": credentials.refresh_token,
        }
    return {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": _assertion(credentials, int(time.time())),
    }


def _assertion(credentials: GoogleCredentials, now: int) -> str:
    """A signed request of the service account for a token that lasts an hour."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    head = {"alg": "RS256", "typ": "JWT", "kid": credentials.private_key_id}
    claims = {
        "iss": credentials.client_email,
        "scope": SCOPE,
        "aud": credentials.token_uri,
        "iat": now,
        "exp": now + 3600,
    }
    unsigned = b".".join(_coded(json.dumps(part).encode()) for part in (head, claims))
    try:
        key = load_pem_private_key(credentials.private_key.encode(), password=None)
        if not isinstance(key, RSAPrivateKey):
            raise TypeError("not an RSA key")
    except (ValueError, TypeError) as error:
        raise ProviderError(
            "The private key of the Google service account cannot be read. Download it again.",
            kind=FailureKind.BAD_KEY,
        ) from error
    return b".".join((unsigned, _coded(key.sign(unsigned, PKCS1v15(), SHA256())))).decode()


def _coded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")
