"""Amazon's credentials and signatures, found and made as Amazon's own programs do.

Credentials are looked for before every request, so that a session that was renewed in another
terminal is used at once. The network is used only if a variable names a credentials service.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

import anyio
import msgspec
from msgspec import Struct, field

from rookery.core.limits import FailureKind
from rookery.errors import ProviderError, SettingsError
from rookery.first_use import prepared
from rookery.providers.registry import is_loopback
from rookery.providers.wire_format import beginning

if TYPE_CHECKING:
    import httpx2

KEY_ID, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
METADATA = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
)
"""Variables that name a service which gives out credentials."""
OTHER_WAYS = f"AWS credentials work too: set AWS_PROFILE, or {KEY_ID} and {SECRET}."
FILE_BYTES = 1024 * 1024
SECONDS = 5
ANSWER_BYTES = 64 * 1024
CONTAINER = "http://169.254.170.2"
_CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23")
_ROLES = "/latest/meta-data/iam/security-credentials/"

_ALGORITHM = "AWS4-HMAC-SHA256"
_RENEWED_BEFORE = timedelta(minutes=5)
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_FOREIGN = ("sso_session", "sso_start_url", "credential_process", "role_arn", "login_session")
"""Settings of profiles whose credentials another program must fetch."""


class AwsCredentials(Struct, frozen=True):
    key_id: str
    secret: str
    token: str = ""
    expires: datetime | None = None

    def __repr__(self) -> str:
        return f"AwsCredentials({self.key_id!r})"


def region(environ: Mapping[str, str]) -> str:
    """The region to call. Raises `SettingsError` if none is set."""
    named = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    found = named or _profile(environ).get("region", "")
    if not found:
        raise SettingsError("No AWS region is set. Set AWS_REGION, for example to us-east-1.")
    if not _REGION.fullmatch(found):
        raise SettingsError(f"{found!r} is not an AWS region. Set AWS_REGION to one.")
    return found


def has_credentials(environ: Mapping[str, str]) -> bool:
    """Whether a request can be signed. Raises `SettingsError` for a profile that cannot be used."""
    return find_credentials(environ) is not None or any(map(environ.get, METADATA))


def find_credentials(environ: Mapping[str, str]) -> AwsCredentials | None:
    """Credentials from the environment or a profile in Amazon's files; None if there are none."""
    if environ.get(KEY_ID) and environ.get(SECRET):
        return AwsCredentials(environ[KEY_ID], environ[SECRET], environ.get(TOKEN, ""))
    profile = _profile(environ)
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return AwsCredentials(
            profile["aws_access_key_id"],
            profile["aws_secret_access_key"],
            profile.get("aws_session_token", ""),
        )
    if foreign := next((name for name in _FOREIGN if name in profile), ""):
        name = _profile_name(environ)
        raise SettingsError(
            f"The AWS profile {name} uses {foreign}, which needs the AWS CLI. "
            f'Run: eval "$(aws configure export-credentials --profile {name} --format env)"'
        )
    return None


def _profile_name(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"


def _profile(environ: Mapping[str, str]) -> dict[str, str]:
    """The profile in use; what the credentials file says about it comes first."""
    home = Path(environ.get("HOME") or Path.home()) / ".aws"
    config = Path(environ.get("AWS_CONFIG_FILE") or home / "config").expanduser()
    credentials = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials")
    name = _profile_name(environ)
    section = name if name == "default" else f"profile {name}"
    found = [_section(config, section), _section(credentials.expanduser(), name)]
    if found == [None, None] and name != "default":
        raise SettingsError(f"There is no AWS profile {name} in {config} or {credentials}.")
    return {key: value for each in found if each for key, value in each.items()}


def _section(file: Path, name: str) -> dict[str, str] | None:
    from configparser import ConfigParser, Error

    parser = ConfigParser(interpolation=None, strict=False, default_section="")
    try:
        with file.open(encoding="utf-8") as text:
            parser.read_string(text.read(FILE_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, Error) as error:
        # the text of a parser's error may quote a secret
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SettingsError(f"The AWS file {file} cannot be read ({reason}).") from None
    return dict(parser[name]) if parser.has_section(name) else None


class Signer:
    """Signs requests to one service with the current credentials."""

    def __init__(self, service: str, environ: Mapping[str, str]) -> None:
        self._service = service
        self._environ = environ
        self._fetched: AwsCredentials | None = None

    async def headers(self, url: str, body: bytes) -> Mapping[str, str]:
        """The headers to add; none without credentials, as for a server on this machine."""
        now = datetime.now(UTC)
        try:
            credentials = await self._credentials(now)
            where = region(self._environ) if credentials else ""
        except SettingsError as error:
            raise ProviderError(str(error), kind=FailureKind.BAD_KEY) from None
        if credentials is None:
            return {}
        return signature(
            url, body, service=self._service, region=where, credentials=credentials, now=now
        )

    async def _credentials(self, now: datetime) -> AwsCredentials | None:
        found = find_credentials(self._environ)
        if found or not any(map(self._environ.get, METADATA)):
            return found
        expires = self._fetched.expires if self._fetched else None
        if self._fetched is None or (expires and expires - now < _RENEWED_BEFORE):
            self._fetched = await fetch_credentials(self._environ)
        return self._fetched


def signature(
    url: str,
    body: bytes,
    *,
    service: str,
    region: str,
    credentials: AwsCredentials,
    now: datetime,
) -> dict[str, str]:
    """The headers of a POST without a query, signed with Signature Version 4."""
    time = now.strftime("%Y%m%dT%H%M%SZ")
    day = time[:8]
    parts = urlsplit(url)
    signed = {"host": _host(url), "x-amz-date": time}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(signed)
    canonical = "\n".join(
        [
            "POST",
            # the path is encoded once more than it is sent
            quote(parts.path or "/", safe="/~"),
            "",
            *(f"{name}:{value}" for name, value in signed.items()),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{credentials.secret}".encode()
    for step in (day, region, service, "aws4_request"):
        key = _hmac(key, step)
    proof = _hmac(key, "\n".join([_ALGORITHM, time, scope, digest])).hex()
    del signed["host"]  # the client sends it
    return {
        **signed,
        "authorization": (
            f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={names}, "
            f"Signature={proof}"
        ),
    }


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _host(url: str) -> str:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    host = parts.netloc.rpartition("@")[2].lower()
    return host.removesuffix(f":{default}")


class _Given(Struct):
    key_id: str = field(name="AccessKeyId")
    secret: str = field(name="SecretAccessKey")
    token: str = field(name="Token", default="")
    expires: str = field(name="Expiration", default="")


async def fetch_credentials(environ: Mapping[str, str]) -> AwsCredentials:
    """Credentials from the service that a variable names. Raises `ProviderError`."""
    import httpx2

    try:
        with anyio.fail_after(SECONDS):
            async with httpx2.AsyncClient(verify=True, trust_env=False, timeout=SECONDS) as http:
                given = msgspec.json.decode(await _answer(http, environ), type=prepared(_Given))
                return _credentials(given)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ProviderError(
            f"The AWS credentials service returned no credentials: {reason[:200]}",
            kind=FailureKind.BAD_KEY,
        ) from None


async def _answer(http: "httpx2.AsyncClient", environ: Mapping[str, str]) -> bytes:
    if relative := environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return await _get(http, CONTAINER + relative, _authorization(environ))
    if full := environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return await _get(http, _container_address(full), _authorization(environ))
    return await _of_machine(http, environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"])


def _container_address(url: str) -> str:
    """The token of the container goes to no other machine unencrypted."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in _CONTAINER_HOSTS or is_loopback(url):
        return url
    raise ValueError(f"{parts.hostname} is not an address of a container service")


def _authorization(environ: Mapping[str, str]) -> dict[str, str]:
    if file := environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        with Path(file).open(encoding="utf-8") as text:
            return {"authorization": text.read(ANSWER_BYTES).strip()}
    token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    return {"authorization": token} if token else {}


async def _of_machine(http: "httpx2.AsyncClient", endpoint: str) -> bytes:
    lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
    answer = await http.put(urljoin(endpoint, "/latest/api/token"), headers=lifetime)
    token = {"x-aws-ec2-metadata-token": answer.raise_for_status().text.strip()}
    role = (await _get(http, urljoin(endpoint, _ROLES), token)).decode().split("\n")[0]
    return await _get(http, urljoin(endpoint, _ROLES + role), token)


async def _get(http: "httpx2.AsyncClient", url: str, headers: dict[str, str]) -> bytes:
    async with http.stream("GET", url, headers=headers) as response:
        answer = await beginning(response.raise_for_status().aiter_bytes(), ANSWER_BYTES)
    if len(answer) > ANSWER_BYTES:
        raise ValueError("its answer is too long")
    return answer


def _credentials(given: _Given) -> AwsCredentials:
    expires = datetime.fromisoformat(given.expires) if given.expires else None
    if expires and not expires.tzinfo:
        expires = expires.replace(tzinfo=UTC)
    return AwsCredentials(given.key_id, given.secret, given.token, expires)
