"""Probing a model, and storing the results."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from llm_server import LlmServer
from llm_server.parts import Answer, Status, call, hang, keepalives, say
from rookery.app.model_choice import facts_about
from rookery.core.settings import Settings
from rookery.platform.user_folders import find_places
from rookery.providers.cli.probe_command import probe, way_to_call
from rookery.providers.model_cache import (
    LARGEST_FILE,
    ProbedModel,
    address_of,
    probed_model,
    remember,
)
from rookery.providers.registry import open_provider
from support.terminal_session import Installed

PRINTS = '<tool_call>{"name": "report_city", "arguments": {"city": "Paris"}}</tool_call>'


def answers(*given: Any) -> list[Answer]:
    return [[say(each)] if isinstance(each, str) else each for each in given]


ABLE = answers(
    [say("1, ", keepalives(2), "2, 3")],
    [call("report_city", city="P")],
    '{"teal_field":"north"}',
    "5",
)
UNABLE = answers([say("1, ", keepalives(2), "2")], PRINTS, "[" * 10_000, Status(400))
ONLY_SCHEMA = answers("1", Status(400), '{"teal_field":"south"}', "1, 2")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "able", "calls"),
    [
        (ABLE, [True, True, True, True], "native"),
        (UNABLE, [True, False, False, False], "text"),
        (ONLY_SCHEMA, [None, False, True, False], "schema"),
        ([*ABLE[:1], hang()], [True, None, None, None], None),
    ],
    ids=["able", "unable", "only a schema", "hangs"],
)
async def test_a_model_shows_what_it_can_do(script: list[Any], able: list[Any], calls: str | None):
    with LlmServer(*script) as server:
        provider = open_provider("vllm", model="m", base_url=f"{server.url}/v1")
        found = await probe(provider, seconds=1, begin=lambda name: None)
        await provider.aclose()
    assert [each.able for each in found] == able
    assert way_to_call(found) == calls


def test_the_command_prints_and_remembers_and_requests_use_it(home: Path):
    props = {"default_generation_settings": {"n_ctx": 4096}}
    pages = {"/v1/models": Status(200, {"data": [{"id": "m"}]}), "/props": Status(200, props)}
    with LlmServer(*ABLE, pages=pages) as server:
        url = f"{server.url}/v1"
        run = [sys.executable, "-m", "rookery", "models", "--probe", "vllm", "-m", "m"]
        done = subprocess.run(
            [*run, "--base-url", url], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"vllm m at {url}",
        "streaming      yes",
        "native calls   yes",
        "JSON schema    yes",
        "continuation   yes",
        "context        4,096 tokens",
    ]
    assert probed_model(home / "cache" / "probes.json", url, "m").calls == "native"
    assert facts_about(Settings(), "vllm", "m", url).window == 4096
    described = Settings(models={"m": {"window": 9000}})
    assert facts_about(described, "vllm", "m", url).window == 9000


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"version":2,"models":[]}', b" " * (LARGEST_FILE + 1)],
    ids=lambda damage: repr(damage[:12]),
)
def test_a_damaged_file_counts_as_none_and_is_replaced(tmp_path: Path, damage: bytes):
    file = tmp_path / "probes.json"
    file.write_bytes(damage)
    assert probed_model(file, "a", "m") == ProbedModel(address="a", model="m")
    remember(file, "a", "m", lambda known: replace(known, window=512), 1.0)
    assert probed_model(file, "a", "m").window == 512


WRITER = """
import sys
from pathlib import Path
from msgspec.structs import replace
from rookery.providers.model_cache import remember
for turn in range(50):
    remember(Path(sys.argv[1]), "a", "m", lambda old: replace(old, printed=old.printed + 1), turn)
"""


def test_two_processes_lose_nothing(tmp_path: Path):
    file = tmp_path / "probes.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file)]) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert probed_model(file, "a", "m").printed == 100


PROPS = {"/props": Status(200, {"default_generation_settings": {"n_ctx": 4096}})}


def installed(folder: Path) -> Installed:
    (folder / "run").mkdir()
    return Installed(folder / "run")


def run_local(rookery: Installed, server: LlmServer, task: str) -> Any:
    flags = ("--provider", "vllm", "-m", "mid-20b", "--base-url", f"{server.url}/v1")
    done = rookery.run("-p", "-y", *flags, task)
    assert done.returncode == 0
    return done


def known(rookery: Installed, server: LlmServer) -> ProbedModel:
    file = find_places(rookery.environ).model_probes
    return probed_model(file, address_of(f"{server.url}/v1"), "mid-20b")


def test_a_server_on_this_machine_says_its_window_by_itself(tmp_path: Path):
    rookery = installed(tmp_path)
    with LlmServer([say("Hello.")], pages=PROPS) as server:
        run_local(rookery, server, "hello")
    assert len(server.requests) == 1
    assert known(rookery, server).window == 4096
    tools = {each["function"]["name"] for each in server.requests[0].body["tools"]}
    assert "apply_patch" not in tools, "a small window gets the compact profile"


def test_how_a_model_calls_tools_is_learned_from_its_answers(tmp_path: Path):
    rookery = installed(tmp_path)
    printed = '<tool_call>{"name": "list_files", "arguments": {"path": "."}}</tool_call>'
    with LlmServer([say(printed)], [say("One.")], [say(printed)], [say("Two.")]) as server:
        run_local(rookery, server, "first")
        assert known(rookery, server).calls is None
        run_local(rookery, server, "second")
        assert known(rookery, server).calls == "text"
    assert "tools" in server.requests[0].body


def test_a_native_call_is_remembered_at_once(tmp_path: Path):
    rookery = installed(tmp_path)
    with LlmServer([call("list_files", path=".", recursive=False)], [say("One.")]) as server:
        run_local(rookery, server, "first")
    assert known(rookery, server).calls == "native"
