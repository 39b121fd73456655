"""Embeddings from an OpenAI-compatible endpoint.

Called from a dedicated thread, so it blocks and sleeps between retries.
"""

import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import httpx2
import msgspec

from rookery import NAME, VERSION
from rookery.core.limits import MIB, RETRIES, FailureKind, Limits
from rookery.errors import ProviderError
from rookery.first_use import prepared
from rookery.providers.http_client import tls_context
from rookery.providers.listener import Addressee
from rookery.providers.provider_errors import plain, redacted, refusal
from rookery.providers.registry import BASE_URLS, is_encrypted, is_loopback
from rookery.providers.wire_format import json_or_text

TRIES = 3
FIRST_WAIT = 0.5
LONGEST_WAIT = 5.0
LARGEST_ANSWER = 64 * MIB


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Vector]


def address_of_embeddings(provider: str) -> str:
    """The base URL of the protocol in which embeddings are asked for."""
    url = BASE_URLS.get(provider, "")
    return f"{url}/openai" if provider == "gemini" else url


class EndpointEmbedder:
    """`name` identifies comparable vectors: provider and model."""

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        base_url: str,
        key: str = "",
        limits: Limits | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        limits = limits or Limits()
        self.name = f"{provider}/{model}"
        self._model = model
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._to = Addressee(
            provider=provider, model=model, host=urlsplit(base_url).netloc, secret=key
        )
        self._wait = wait
        self._http = httpx2.Client(
            headers={
                "user-agent": f"{NAME}/{VERSION}",
                **({"authorization": f"Bearer {key}"} if key else {}),
            },
            timeout=httpx2.Timeout(limits.idle_seconds, connect=limits.connect_seconds),
            trust_env=not is_loopback(base_url),
            verify=tls_context() if is_encrypted(base_url) else False,
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text. Raises `ProviderError` if the last retry fails."""
        for tried in range(TRIES - 1):
            try:
                return self._embed(texts)
            except ProviderError as error:
                if error.kind not in RETRIES:
                    raise
                self._wait(min(error.retry_after or FIRST_WAIT * 2**tried, LONGEST_WAIT))
        return self._embed(texts)

    def close(self) -> None:
        self._http.close()

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            with self._http.stream(
                "POST", self._url, json={"model": self._model, "input": list(texts)}
            ) as response:
                body = self._read(response)
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            reason = plain(redacted(str(error), self._to.secret), 200) or type(error).__name__
            raise ProviderError(
                f"No embeddings from {self._to.host} ({reason}).",
                kind=FailureKind.OFFLINE,
            ) from error
        if not response.is_success:
            raise refusal(self._to, response.status_code, response.headers, json_or_text(body))
        return self._vectors(body, len(texts))

    def _read(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise self._misplaced()
        return bytes(body)

    def _vectors(self, body: bytes, count: int) -> list[list[float]]:
        try:
            answer = msgspec.json.decode(body, type=prepared(_Answer))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._misplaced() from error
        ordered = sorted(answer.data, key=lambda vector: vector.index)
        lengths = {len(vector.embedding) for vector in ordered}
        if [vector.index for vector in ordered] != list(range(count)) or len(lengths) != 1:
            raise self._misplaced()
        return [vector.embedding for vector in ordered]

    def _misplaced(self) -> ProviderError:
        return ProviderError(
            f"The answer of {self._to.host} has no embeddings.", kind=FailureKind.MISPLACED
        )
