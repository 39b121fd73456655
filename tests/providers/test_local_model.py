"""A model file in a separate process: it answers, waits, fails and ends."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import httpx2
import pytest
from msgspec.structs import replace

from llm_server import LlmServer, say, status
from providers.conftest import HELLO
from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.core.limits import FailureKind, Limits
from rookery.engine.ports.model import ModelRequest, SilenceChunk, StopChunk, TextChunk, ToolSpec
from rookery.errors import ProviderError, SettingsError
from rookery.providers.catalogue import find_model
from rookery.providers.gguf import GgufHeader
from rookery.providers.local_model import (
    RUNTIME,
    LocalProvider,
    LocalReading,
    ModelProcess,
)
from rookery.providers.model_files import context_for
from rookery.providers.registry import OpenProvider, open_provider
from support.each_row import each_row
from support.tiny_model import CONTEXT, SENTENCE, tiny_model

pytestmark = pytest.mark.anyio
runs_a_model = pytest.mark.skipif(
    find_spec(RUNTIME) is None, reason=f"the package {RUNTIME} is not installed"
)
GIB = 1024**3


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny.gguf")


@pytest.fixture
def cut_file(file: Path) -> Path:
    file.write_bytes(file.read_bytes()[:-4096])
    return file


async def said(provider: OpenProvider, request: ModelRequest = HELLO) -> str:
    async with provider.stream(request) as chunks:
        received = [chunk async for chunk in chunks]
    assert isinstance(received[-1], StopChunk)
    return "".join(chunk.text for chunk in received if isinstance(chunk, TextChunk))


async def kill_in_an_answer(provider: OpenProvider) -> None:
    async with provider.stream(HELLO) as chunks:
        async for chunk in chunks:
            assert isinstance(chunk, SilenceChunk)
            os.kill(process_of(provider), signal.SIGKILL)


def process_of(provider: OpenProvider) -> int:
    assert isinstance(provider, LocalProvider)
    process = provider._server._process
    assert process
    return process.pid


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)  # until every thread has stopped


@runs_a_model
async def test_a_file_answers_twice_and_its_process_ends_with_it(file: Path, home: Path):
    log = home / "state/local-model.log"
    provider = open_provider("local", model=str(file))
    assert (provider.model.window, provider.model.max_output) == (CONTEXT, CONTEXT // 4)
    assert not log.exists()
    assert await said(provider) == SENTENCE
    pid = process_of(provider)
    assert await said(provider) == SENTENCE
    assert process_of(provider) == pid
    assert log.stat().st_size
    await provider.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@runs_a_model
async def test_only_the_holder_of_the_key_is_answered(file: Path):
    provider = open_provider("local", model=str(file))
    assert isinstance(provider, LocalProvider)
    await said(provider)
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"{provider._server.address}/v1/chat/completions", json={})
    await provider.aclose()
    assert answer.status_code == 401


@runs_a_model
async def test_loading_is_reported_meanwhile(file: Path):
    process = ModelProcess(file, CONTEXT, patience=60, tick=0.001)
    waits = [waiting async for waiting in process.started()]
    await process.aclose()
    assert {waiting.what for waiting in waits} == {"Loading tiny.gguf"}
    assert [waiting.seconds for waiting in waits] == sorted(waiting.seconds for waiting in waits)


@runs_a_model
async def test_a_load_that_takes_too_long_is_ended(file: Path):
    provider = open_provider("local", model=str(file), limits=Limits(first_byte_seconds_local=0))
    with pytest.raises(ProviderError, match="was not loaded within 0 seconds"):
        await said(provider)
    assert isinstance(provider, LocalProvider)
    assert provider._server._process is None


@runs_a_model
async def test_a_file_without_its_end_is_one_sentence(cut_file: Path):
    provider = open_provider("local", model=str(cut_file))
    with pytest.raises(ProviderError, match=r"^tiny\.gguf could not be loaded: .+ See /") as e:
        await said(provider)
    assert e.value.kind is FailureKind.REJECTED
    await provider.aclose()


@runs_a_model
async def test_a_process_that_died_is_started_again(file: Path):
    provider = open_provider("local", model=str(file))
    await said(provider)
    pid = process_of(provider)
    os.kill(pid, signal.SIGKILL)
    assert isinstance(provider, LocalProvider)
    with pytest.raises(ProviderError):
        await provider._server.check()
    assert await said(provider) == SENTENCE
    assert process_of(provider) != pid
    await provider.aclose()


@runs_a_model
async def test_a_process_that_is_killed_in_an_answer_is_one_sentence(file: Path):
    provider = open_provider("local", model=str(file), limits=Limits(first_byte_seconds=0.4))
    await said(provider)
    stop(process_of(provider))
    with pytest.raises(ProviderError, match="needs more memory than is available") as caught:
        await kill_in_an_answer(provider)
    assert caught.value.kind is FailureKind.REJECTED
    await provider.aclose()


class _Running:
    """A process that has loaded a model without tools."""

    key = "key"

    def __init__(self, address: str) -> None:
        self.address = address

    async def started(self) -> AsyncIterator[SilenceChunk]:
        for waiting in ():
            yield waiting

    async def check(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


async def test_a_model_that_takes_no_tools_is_known_after_the_first_refusal(file: Path):
    provider = LocalProvider(file, find_model("local", "tiny", {}), Limits(), "unspecified")
    tools = [ToolSpec(name="edit", description="Edits.", schema={"type": "object"})]
    with LlmServer(status(400, "This model does not support tools."), [say("hi")]) as server:
        provider._server = cast(ModelProcess, _Running(server.url))
        with pytest.raises(ProviderError, match="Describing the tools in the prompt"):
            await said(provider, replace(HELLO, tools=tools))
        assert provider.model.calls == "text"
        assert await said(provider, replace(HELLO, tools=tools)) == "hi"
        await provider.aclose()
    assert "tools" not in server.requests[1].body


@runs_a_model
async def test_a_conversation_that_is_too_long_is_an_overflow(file: Path):
    provider = open_provider("local", model=str(file), described={"window": 256})
    long = ModelRequest(system="", turns=[Turn("user", (Text(text="word " * 200),))])
    with pytest.raises(ProviderError) as caught:
        await said(provider, long)
    assert caught.value.kind is FailureKind.OVERFLOW
    await provider.aclose()


async def test_without_the_runtime_the_error_names_the_package(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, RUNTIME, None)
    with pytest.raises(SettingsError, match="pip install xllamacpp"):
        open_provider("local", model=str(file))


@each_row(
    ("trained", "token_bytes", "memory", "context"),
    [
        (131_072, 28_672, 16 * GIB, 32_768),
        (131_072, 131_072, 4 * GIB, 16_384),
        (131_072, 131_072, 1 * GIB, 8_192),
        (2_048, 28_672, 16 * GIB, 2_048),
        (0, 28_672, 16 * GIB, 8_192),
        (40_960, 0, 16 * GIB, 8_192),
    ],
)
def test_model_and_memory_limit_the_context(
    trained: int, token_bytes: int, memory: int, context: int
):
    header = GgufHeader(context=trained, token_bytes=token_bytes)
    assert context_for(header, GIB, memory) == context


def test_the_settings_say_more_than_the_file(file: Path):
    described = {"window": 1024, "parameters": 7.0}
    info = open_provider("local", model=str(file), described=described).model
    assert (info.window, info.parameters, info.max_output) == (1024, 7.0, 256)


@each_row(
    ("progress", "what"),
    [
        ({"total": 200, "processed": 86, "time_ms": 1500}, ["Reading the prompt: 43 %"]),
        ({"total": 200, "processed": 900, "time_ms": 1500}, ["Reading the prompt: 100 %"]),
        ({"total": 200, "processed": 86, "time_ms": 10}, []),
        ({"total": 0, "processed": 86, "time_ms": 1500}, []),
        ({"total": "x", "processed": None, "time_ms": []}, []),
    ],
)
def test_a_long_prompt_is_reported_while_it_is_read(progress: dict[str, object], what: list[str]):
    reading = LocalReading(find_model("local", "m", {}))
    received = reading.read_event({"choices": [], "prompt_progress": progress})
    assert [chunk.what for chunk in received if isinstance(chunk, SilenceChunk)] == what
