"""Vertex AI: addresses, and access tokens from each kind of credentials."""

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from llm_server import LlmServer, nobody_home, say, status
from providers.conftest import HELLO
from rookery.core.limits import FailureKind
from rookery.engine.ports.model import TextChunk
from rookery.errors import ProviderError, SettingsError
from rookery.providers import vertex
from rookery.providers.catalogue import find_model
from rookery.providers.registry import BASE_URLS, open_provider
from rookery.providers.vertex import GoogleTokens, address, credentials_file, has_credentials
from support.each_row import each_row
from support.token_server import TokenServer

HOME = "/v1/projects/p-1/locations/us-east5/publishers/google"
VARIABLES = """GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG GCE_METADATA_HOST K_SERVICE
    CLOUD_RUN_JOB GAE_ENV GOOGLE_CLOUD_PROJECT GOOGLE_CLOUD_LOCATION VERTEX_ACCESS_TOKEN"""


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))


@each_row(
    ("location", "host"),
    [
        ("", "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_the_address_follows_from_project_and_location(location: str, host: str):
    environ = {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": location}
    assert address(BASE_URLS["vertex"], environ) == (
        f"https://{host}/v1/projects/p-1/locations/{location or 'global'}/publishers/google"
    )


@each_row(
    ("environ", "sentence"),
    [
        ({}, "Set GOOGLE_CLOUD_PROJECT"),
        ({"GOOGLE_CLOUD_PROJECT": "a/b"}, "is not the id of a Google Cloud project"),
        ({"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "x.evil/"}, "is not a location"),
    ],
)
def test_an_address_that_cannot_be_made_is_explained(environ: dict[str, str], sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        address(BASE_URLS["vertex"], environ)


@pytest.mark.parametrize(
    ("fields", "project"),
    [
        ({"type": "authorized_user", "quota_project_id": "mine-7"}, "mine-7"),
        ({"type": "service_account", "project_id": "theirs-8"}, "theirs-8"),
    ],
)
def test_the_project_can_come_from_the_credentials(
    tmp_path: Path, fields: dict[str, str], project: str
):
    file = tmp_path / "key.json"
    file.write_text(json.dumps(fields), encoding="utf-8")
    assert f"/projects/{project}/" in address(
        BASE_URLS["vertex"], {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
    )


def test_credentials_are_named_by_the_environment_or_those_of_gcloud(tmp_path: Path):
    environ = {"HOME": str(tmp_path)}
    assert not has_credentials(environ)
    gcloud = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    gcloud.parent.mkdir(parents=True)
    gcloud.write_text("{}", encoding="utf-8")
    assert credentials_file(environ) == gcloud
    named = environ | {"GOOGLE_APPLICATION_CREDENTIALS": "/somewhere/key.json"}
    assert credentials_file(named) == Path("/somewhere/key.json")
    assert has_credentials({"HOME": str(tmp_path / "other"), "K_SERVICE": "mine"})


async def answers(
    server: LlmServer, *, times: int = 1, api_key: str = "", model: str = "gemini-3.8-flash"
) -> list[str]:
    provider = open_provider("vertex", model=model, base_url=server.url + HOME, api_key=api_key)
    said = []
    try:
        with anyio.fail_after(60):
            for _ in range(times):
                async with provider.stream(HELLO) as chunks:
                    texts = [c.text async for c in chunks if isinstance(c, TextChunk)]
                said.append("".join(texts))
    finally:
        await provider.aclose()
    return said


async def failure(server: LlmServer) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answers(server)
    return caught.value


def write_key(folder: Path, patch: pytest.MonkeyPatch, **fields: Any) -> Path:
    file = folder / "key.json"
    file.write_text(json.dumps(fields), encoding="utf-8")
    patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    return file


USER = {
    "type": "authorized_user",
    "client_id": "client-1",
    "client_secret": "hush",
    "refresh_token": "1//refresh-secret",
    "quota_project_id": "p-1",
}


@pytest.mark.anyio
async def test_a_token_that_was_given_is_sent():
    with LlmServer([say("Yes.")]) as server:
        assert await answers(server, api_key="ya29.given") == ["Yes."]
    (request,) = server.requests
    assert request.path == f"{HOME}/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert request.headers["authorization"] == "Bearer ya29.given"
    assert "x-goog-api-key" not in request.headers


@pytest.mark.anyio
async def test_claude_is_asked_by_the_messages_api():
    with LlmServer([say("Yes.")]) as server:
        claude = "claude-sonnet-4-5@20250929"
        assert await answers(server, api_key="ya29.given", model=claude) == ["Yes."]
    (request,) = server.requests
    home = HOME.removesuffix("google")
    assert request.path == f"{home}anthropic/models/{claude}:streamRawPredict"
    assert request.headers["authorization"] == "Bearer ya29.given"
    assert request.body["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in request.body
    assert request.body["stream"] is True
    known = find_model("vertex", claude, {})
    assert known.input_price == find_model("anthropic", "claude-sonnet-4-5", {}).input_price


@pytest.mark.anyio
async def test_a_user_signs_in_with_the_refresh_token_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with TokenServer() as tokens, LlmServer([say("One.")], [say("Two.")]) as server:
        write_key(tmp_path, monkeypatch, **USER, token_uri=tokens.token_uri)
        assert await answers(server, times=2) == ["One.", "Two."]
    (asked,) = tokens.requests
    assert asked.form == {
        "grant_type": "refresh_token",
        "client_id": "client-1",
        "client_secret": "hush",
        "refresh_token": "1//refresh-secret",
    }
    assert [r.headers["authorization"] for r in server.requests] == ["Bearer token-1"] * 2
    assert server.requests[0].headers["x-goog-user-project"] == "p-1"


@pytest.mark.anyio
async def test_a_token_about_to_expire_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with TokenServer(seconds=59) as tokens, LlmServer([say("One.")], [say("Two.")]) as server:
        write_key(tmp_path, monkeypatch, **USER, token_uri=tokens.token_uri)
        await answers(server, times=2)
    sent = [r.headers["authorization"] for r in server.requests]
    assert sent == ["Bearer token-1", "Bearer token-2"]


@pytest.mark.anyio
async def test_a_service_account_signs_its_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    with TokenServer() as tokens, LlmServer([say("Yes.")]) as server:
        write_key(
            tmp_path,
            monkeypatch,
            type="service_account",
            client_email="robot@p-1.example",
            private_key=pem,
            private_key_id="k-9",
            token_uri=tokens.token_uri,
        )
        assert await answers(server) == ["Yes."]
    (asked,) = tokens.requests
    assert asked.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    said, _, signature = asked.form["assertion"].rpartition(".")
    key.public_key().verify(decoded(signature), said.encode(), padding.PKCS1v15(), hashes.SHA256())
    head, claims = (json.loads(decoded(part)) for part in said.split("."))
    assert head == {"alg": "RS256", "typ": "JWT", "kid": "k-9"}
    assert (claims["iss"], claims["aud"]) == ("robot@p-1.example", tokens.token_uri)
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert claims["exp"] - claims["iat"] == 3600
    assert server.requests[0].headers["authorization"] == "Bearer token-1"


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.anyio
async def test_the_metadata_server_is_asked_where_the_environment_names_it(
    monkeypatch: pytest.MonkeyPatch,
):
    with TokenServer() as tokens, LlmServer([say("Yes.")]) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", tokens.host)
        assert await answers(server) == ["Yes."]
    (asked,) = tokens.requests
    assert asked.path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert asked.headers["metadata-flavor"] == "Google"
    assert server.requests[0].headers["authorization"] == "Bearer token-1"


@pytest.mark.anyio
async def test_a_sign_in_that_ended_is_explained_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said = {"error": "invalid_grant", "error_description": "Expired: 1//refresh-secret"}
    with TokenServer(refusal=(400, said)) as tokens, LlmServer([say("Never.")]) as server:
        file = write_key(tmp_path, monkeypatch, **USER, token_uri=tokens.token_uri)
        error = await failure(server)
    assert error.kind is FailureKind.BAD_KEY
    assert f"rejected the key from {file}" in str(error)
    assert "gcloud auth application-default login" in str(error)
    assert "refresh-secret" not in str(error)
    assert server.requests == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        ((503, {}), FailureKind.BUSY),
        ((200, {"access_token": 7}), FailureKind.BUSY),
        ((200, ["odd"]), FailureKind.BUSY),
        ((200, {"access_token": "a\nb"}), FailureKind.BUSY),
        ((401, "no"), FailureKind.BAD_KEY),
    ],
)
async def test_an_odd_answer_of_the_token_server_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, Any], kind: FailureKind
):
    with TokenServer(refusal=refusal) as tokens, LlmServer([say("Never.")]) as server:
        write_key(tmp_path, monkeypatch, **USER, token_uri=tokens.token_uri)
        assert (await failure(server)).kind is kind


@pytest.mark.anyio
async def test_a_token_server_that_is_away_means_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with nobody_home() as nowhere, LlmServer([say("Never.")]) as server:
        write_key(tmp_path, monkeypatch, **USER, token_uri=f"{nowhere}/token")
        assert (await failure(server)).kind is FailureKind.OFFLINE


@pytest.mark.anyio
async def test_a_rejected_token_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    message = "Invalid token ya29.a0AfB_byC-0123456789abcdefghij"
    answer = status(401, {"error": {"code": 401, "message": message}})
    with TokenServer() as tokens, LlmServer(answer) as server:
        file = write_key(tmp_path, monkeypatch, **USER, token_uri=tokens.token_uri)
        error = await failure(server)
    assert error.kind is FailureKind.BAD_KEY
    assert f"vertex rejected the key from {file}" in str(error)
    assert "0123456789" not in str(error)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "is not a Google credentials file"),
        ('{"type": 7}', "is not a Google credentials file"),
        ('{"type": "external_account"}', "type external_account.*gcloud auth print-access-token"),
        ('{"type": "authorized_user", "token_uri": "http://evil.example/"}', "https://"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
):
    file = tmp_path / "key.json"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(SettingsError, match=sentence):
        open_provider("vertex", model="m", base_url="http://127.0.0.1:9")


def test_a_missing_file_and_missing_credentials_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SettingsError, match="gcloud auth application-default login"):
        open_provider("vertex", model="m", base_url="https://vertex.example")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    with pytest.raises(SettingsError, match="Cannot read Google credentials"):
        open_provider("vertex", model="m", base_url="http://127.0.0.1:9")


@pytest.mark.anyio
async def test_a_token_server_that_never_ends_its_answer_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vertex, "_SECONDS", 0.3)

    async def drip(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError):
            async with stream:
                await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    await stream.send(b" ")
                    await anyio.sleep(0.05)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        group.start_soon(listener.serve, drip)
        tokens = GoogleTokens({"GCE_METADATA_HOST": f"127.0.0.1:{port}", "HOME": "/nowhere"})
        with anyio.fail_after(60), pytest.raises(ProviderError, match="TimeoutError"):
            await tokens.headers("", b"")
        group.cancel_scope.cancel()
