"""Amazon's credentials, from where its own programs find them, and signatures like theirs."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_server import LlmServer, say, status
from rookery.app.model_choice import NoKey, choose_model
from rookery.core.limits import FailureKind
from rookery.core.settings import Settings
from rookery.errors import ProviderError, SettingsError
from rookery.providers.aws import (
    AwsCredentials,
    Signer,
    find_credentials,
    has_credentials,
    region,
    signature,
)
from rookery.providers.registry import open_provider

HOST = "https://bedrock-runtime.eu-central-1.amazonaws.com"
NOW = datetime(2026, 11, 17, 8, 30, 15, tzinfo=UTC)
CREDENTIALS = """
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = default/secret%=

[work]
aws_access_key_id=AKIAWORK
aws_secret_access_key=work-secret
aws_session_token=work-token
"""
CONFIG = """
[default]
region = eu-central-1
s3 =
    max_concurrent_requests = 20
[profile work]
region = us-west-2
[profile company]
sso_session = company
region = us-east-1
[profile scripted]
credential_process = /usr/bin/give-me-keys
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """An environment with AWS configuration files."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS, encoding="utf-8")
    (tmp_path / ".aws" / "config").write_text(CONFIG, encoding="utf-8")
    return {"HOME": str(tmp_path)}


KEYS = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "env-secret"}


@pytest.mark.parametrize(
    ("environ", "found", "where"),
    [
        ({}, AwsCredentials("AKIADEFAULT", "default/secret%="), "eu-central-1"),
        (
            {"AWS_PROFILE": "work"},
            AwsCredentials("AKIAWORK", "work-secret", "work-token"),
            "us-west-2",
        ),
        (KEYS, AwsCredentials("AKIAENV", "env-secret"), "eu-central-1"),
        (
            {**KEYS, "AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "work", "AWS_REGION": "ap-south-1"},
            AwsCredentials("AKIAENV", "env-secret", "t"),
            "ap-south-1",
        ),
        (
            {"AWS_ACCESS_KEY_ID": "half", "AWS_DEFAULT_REGION": "sa-east-1"},
            AwsCredentials("AKIADEFAULT", "default/secret%="),
            "sa-east-1",
        ),
    ],
    ids=["default-profile", "profile", "environment", "all-in-the-environment", "half-a-key"],
)
def test_credentials_and_region_are_found_as_amazon_finds_them(
    files: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    found: AwsCredentials,
    where: str,
):
    import botocore.session

    environ = {**files, **environ}
    assert find_credentials(environ) == found
    assert region(environ) == where
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    if "half" not in environ.values():  # an error in Amazon's kit
        theirs = botocore.session.get_session()
        credentials = theirs.get_credentials()
        assert (credentials.access_key, credentials.secret_key) == (found.key_id, found.secret)
        assert (credentials.token or "") == found.token
    if "AWS_REGION" not in environ:  # which Amazon's other kits read
        assert botocore.session.get_session().get_config_variable("region") == where


@pytest.mark.parametrize("profile", ["company", "scripted", "role"])
def test_a_profile_of_another_program_says_what_to_run(files: dict[str, str], profile: str):
    with pytest.raises(SettingsError) as caught:
        has_credentials({**files, "AWS_PROFILE": profile})
    assert f'eval "$(aws configure export-credentials --profile {profile} --format env)"' in str(
        caught.value
    )


def test_a_profile_that_does_not_exist_is_named(files: dict[str, str]):
    with pytest.raises(SettingsError, match=r"no AWS profile nobody in .*config or "):
        find_credentials({**files, "AWS_PROFILE": "nobody"})


@pytest.mark.parametrize("text", [b"aws_secret_access_key = hush\n", b"\xff\xfe", b"[x\nhush"])
def test_a_broken_file_is_named_without_its_content(tmp_path: Path, text: bytes):
    file = tmp_path / "credentials"
    file.write_bytes(text)
    with pytest.raises(SettingsError, match=r"credentials cannot be read \(\w+\)") as caught:
        find_credentials({"HOME": str(tmp_path), "AWS_SHARED_CREDENTIALS_FILE": str(file)})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [({}, "No AWS region is set. Set AWS_REGION"), ({"AWS_REGION": "x.evil.com/"}, "is not an")],
)
def test_a_missing_or_odd_region_is_refused(tmp_path: Path, environ: dict[str, str], sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        region({"HOME": str(tmp_path), **environ})


def test_secrets_are_not_shown():
    assert "hush" not in repr(AwsCredentials("AKIA", "hush", "hush"))


ids = st.text(alphabet="aZ09.:/-_~ +%ü@", min_size=1, max_size=40).filter(lambda id: id.strip("."))


@given(model=ids, body=st.binary(max_size=60), token=st.sampled_from(["", "FwoGZXIvYXdzE+/="]))
def test_amazons_kit_makes_the_same_signature(model: str, body: bytes, token: str):
    url = f"{HOST}/model/{quote(model, safe='')}/converse-stream"
    credentials = AwsCredentials("AKIAEXAMPLE", "wJalr/XUtnFEMI+K7MDENG", token)
    ours = signature(
        url, body, service="bedrock", region="eu-central-1", credentials=credentials, now=NOW
    )
    assert ours == _signed_by_botocore(url, body, credentials)


def _signed_by_botocore(url: str, body: bytes, ours: AwsCredentials) -> dict[str, str]:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    class AtThatTime(SigV4Auth):  # type: ignore[misc]
        """Its steps, with the time of the test instead of the clock's."""

        def sign(self, request: Any) -> None:
            request.context["timestamp"] = NOW.strftime("%Y%m%dT%H%M%SZ")
            self._modify_request_before_signing(request)
            canonical = self.canonical_request(request)
            to_sign = self.string_to_sign(request, canonical)
            self._inject_signature_to_request(request, self.signature(to_sign, request))

    request = AWSRequest("POST", url, data=body)
    theirs = Credentials(ours.key_id, ours.secret, ours.token or None)
    AtThatTime(theirs, "bedrock", "eu-central-1").sign(request)
    return {name.lower(): value for name, value in request.headers.items()}


@pytest.mark.anyio
async def test_requests_are_signed_with_the_bytes_and_address_that_are_sent(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, hello: Any
):
    monkeypatch.setenv("HOME", files["HOME"])
    monkeypatch.setenv("AWS_PROFILE", "work")
    with LlmServer([say("One.")], [say("Two.")]) as server:
        provider = open_provider(
            "bedrock", model="us.anthropic.claude-sonnet-4-5-20250929-v1:0", base_url=server.url
        )
        for _ in range(2):
            async with provider.stream(hello) as chunks:
                async for _ in chunks:
                    pass
        await provider.aclose()
    for request in server.requests:
        assert request.path == (
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
        )
        sent = request.headers
        assert sent["accept"] == "application/vnd.amazon.eventstream"
        assert sent["x-amz-security-token"] == "work-token"
        moment = datetime.strptime(sent["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        again = signature(
            f"http://{sent['host']}{request.path}",
            request.raw,
            service="bedrock",
            region="us-west-2",
            credentials=AwsCredentials("AKIAWORK", "work-secret", "work-token"),
            now=moment,
        )
        assert sent["authorization"] == again["authorization"]


GIVEN = {
    "AccessKeyId": "ASIAGIVEN",
    "SecretAccessKey": "given-secret",
    "Token": "given-token",
    "Expiration": "2999-01-01T00:00:00Z",
}


class _CredentialsService(BaseHTTPRequestHandler):
    """What Amazon runs beside containers and machines."""

    asked: ClassVar[list[tuple[str, str, str]]]

    def do_PUT(self) -> None:
        self._answer(b"machine-token")

    def do_GET(self) -> None:
        listing = self.path.endswith("/security-credentials/")
        self._answer(b"role\n" if listing else json.dumps(GIVEN).encode())

    def _answer(self, body: bytes) -> None:
        proof = self.headers.get("authorization") or self.headers.get("x-aws-ec2-metadata-token")
        self.asked.append((self.command, self.path, proof or ""))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def credentials_service() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    _CredentialsService.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _CredentialsService) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", _CredentialsService.asked
        server.shutdown()
        thread.join()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("variable", "path"),
    [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/given"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "/latest/meta-data/iam/security-credentials/role"),
    ],
)
async def test_a_container_or_machine_gets_credentials_once(
    tmp_path: Path, credentials_service: Any, variable: str, path: str
):
    url, asked = credentials_service
    environ = {
        "HOME": str(tmp_path),
        "AWS_REGION": "us-east-1",
        variable: f"{url}/given" if "CONTAINER" in variable else url,
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "container-token",
    }
    assert has_credentials(environ)
    signer = Signer("bedrock", environ)
    for _ in range(2):
        headers = await signer.headers(f"{HOST}/model/m/converse-stream", b"{}")
        assert headers["x-amz-security-token"] == "given-token"
        assert "Credential=ASIAGIVEN/" in headers["authorization"]
    assert [place for _, place, _ in asked].count(path) == 1
    proofs = {header for _, _, header in asked}
    assert proofs == ({"container-token"} if "CONTAINER" in variable else {"", "machine-token"})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("http://credentials.example/x", "is not an address of a container service"),
        ("http://127.0.0.1:9/x", "returned no credentials"),
    ],
)
async def test_a_service_that_gives_nothing_is_a_failure_of_the_key(
    tmp_path: Path, place: str, reason: str
):
    environ = {"HOME": str(tmp_path), "AWS_CONTAINER_CREDENTIALS_FULL_URI": place}
    with pytest.raises(ProviderError, match=reason) as caught:
        await Signer("bedrock", environ).headers(f"{HOST}/x", b"")
    assert caught.value.kind is FailureKind.BAD_KEY


@pytest.mark.anyio
@pytest.mark.parametrize(
    "message",
    [
        "The security token included in the request is expired",
        "The request signature we calculated does not match the signature you provided.\n\n"
        "The Canonical String: x-amz-security-token:work-token\n",
        "Authentication failed: Please make sure your API Key is valid.",
    ],
)
async def test_rejected_credentials_are_named_and_not_shown(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, hello: Any, message: str
):
    monkeypatch.setenv("HOME", files["HOME"])
    monkeypatch.setenv("AWS_PROFILE", "work")
    with LlmServer(status(403, {"message": message})) as server:
        provider = open_provider("bedrock", model="m", base_url=server.url)
        with pytest.raises(ProviderError) as caught:
            await _all(provider, hello)
        await provider.aclose()
    assert caught.value.kind is FailureKind.BAD_KEY
    assert str(caught.value).startswith("bedrock rejected the key from your credentials: ")
    assert "work-token" not in str(caught.value)


async def _all(provider: Any, request: Any) -> None:
    async with provider.stream(request) as chunks:
        async for _ in chunks:
            pass


def test_without_credentials_the_first_sentence_says_all_ways(tmp_path: Path):
    wanted = Settings(provider="bedrock", model="m")
    with pytest.raises(NoKey) as caught:
        choose_model(wanted, {"HOME": str(tmp_path)}, tmp_path / "keys", None)
    for way in ("AWS_BEARER_TOKEN_BEDROCK", "rookery auth bedrock", "AWS_PROFILE"):
        assert way in str(caught.value)


def test_credentials_of_amazon_need_no_key(files: dict[str, str], tmp_path: Path):
    wanted = Settings(provider="bedrock", model="m")
    choice = choose_model(wanted, files, tmp_path / "keys", None)
    assert (choice.provider, choice.key, choice.base_url) == ("bedrock", None, None)
