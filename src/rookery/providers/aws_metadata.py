"""Credentials that Amazon gives to containers and machines, from the service a variable names."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
import msgspec
from msgspec import Struct, field

from rookery.core.limits import FailureKind
from rookery.errors import ProviderError
from rookery.providers.aws import AwsCredentials
from rookery.providers.registry import is_loopback

SECONDS = 5
ANSWER_BYTES = 64 * 1024
CONTAINER = "http://169.254.170.2"
_CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23")
_ROLES = "/latest/meta-data/iam/security-credentials/"


class _Given(Struct):
    key_id: str = field(name="AccessKeyId")
    secret: str = field(name="SecretAccessKey")
    token: str = field(name="Token", default="")
    expires: str = field(name="Expiration", default="")


async def fetch_credentials(environ: Mapping[str, str]) -> AwsCredentials:
    """Ask the service. Raises `ProviderError`."""
    try:
        with anyio.fail_after(SECONDS):
            async with httpx2.AsyncClient(verify=True, trust_env=False, timeout=SECONDS) as http:
                given = msgspec.json.decode(await _answer(http, environ), type=_Given)
                return _credentials(given)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ProviderError(
            f"The AWS credentials service returned no credentials: {reason[:200]}",
            kind=FailureKind.BAD_KEY,
        ) from None


async def _answer(http: httpx2.AsyncClient, environ: Mapping[str, str]) -> bytes:
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


async def _of_machine(http: httpx2.AsyncClient, endpoint: str) -> bytes:
    lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
    answer = await http.put(urljoin(endpoint, "/latest/api/token"), headers=lifetime)
    token = {"x-aws-ec2-metadata-token": answer.raise_for_status().text.strip()}
    role = (await _get(http, urljoin(endpoint, _ROLES), token)).decode().split("\n")[0]
    return await _get(http, urljoin(endpoint, _ROLES + role), token)


async def _get(http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> bytes:
    answer = b""
    async with http.stream("GET", url, headers=headers) as response:
        response.raise_for_status()
        async for piece in response.aiter_bytes():
            answer += piece
            if len(answer) > ANSWER_BYTES:
                raise ValueError("its answer is too long")
    return answer


def _credentials(given: _Given) -> AwsCredentials:
    expires = datetime.fromisoformat(given.expires) if given.expires else None
    if expires and not expires.tzinfo:
        expires = expires.replace(tzinfo=UTC)
    return AwsCredentials(given.key_id, given.secret, given.token, expires)
