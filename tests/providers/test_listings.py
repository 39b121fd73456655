"""Which models providers and local servers offer, as they list them, and the cache of it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from llm_server import LlmServer, nobody_home
from llm_server.parts import Status
from rookery.providers.listing_shapes import MOST_MODELS, ListedModel, read_list
from rookery.providers.listings import (
    LISTING_BYTES,
    ListRequest,
    ask_for_lists,
    local_addresses,
    local_servers,
)
from rookery.providers.model_cache import (
    LARGEST_FILE,
    ModelList,
    address_of,
    facts_of,
    keep_lists,
    listed_facts,
    read_lists,
)
from rookery.providers.registry import KEY_VARIABLES, PROVIDERS
from support.each_row import each_row

VECTORS = Path(__file__).parents[1] / "vectors" / "model_lists.yaml"
SHAPES = yaml.safe_load(VECTORS.read_text(encoding="utf-8"))
KEY = "sk-secret-0123456789"


def pages(shape: dict[str, Any]) -> dict[str, Status]:
    return {path: Status(200, body) for path, body in shape["pages"].items()}


@pytest.mark.anyio
@pytest.mark.parametrize("shape", SHAPES, ids=[shape["provider"] for shape in SHAPES])
async def test_a_list_is_read_in_the_shape_of_its_server(shape: dict[str, Any]):
    key = KEY if shape["provider"] in KEY_VARIABLES else ""
    with LlmServer(pages=pages(shape)) as server:
        request = ListRequest(
            provider=shape["provider"], base_url=f"{server.url}{shape['base']}", key=key
        )
        (answer,) = await ask_for_lists([request])
    assert answer.failure == ""
    assert [{"id": each.id, **facts_of(each)} for each in answer.models] == shape["models"]
    asked = [*server.requests, *server.lookups]
    assert asked
    assert all(KEY in str(each.headers) for each in asked) is bool(key)
    assert all(KEY not in each.path for each in asked)


def test_every_shape_of_a_provider_is_recorded():
    """Record the list of a new provider in the vectors, or name it as one of the same shape."""
    recorded = {shape["provider"] for shape in SHAPES}
    of_the_same_shape = {"responses", "roo", "zai"}
    listed = {name for name, row in PROVIDERS.items() if row.module not in ("bedrock", "vertex")}
    assert listed - of_the_same_shape <= recorded


@pytest.mark.anyio
async def test_a_provider_without_a_list_says_what_to_do():
    urls = {name: PROVIDERS[name].url for name in ("bedrock", "vertex", "azure")}
    asked = [ListRequest(provider=name, base_url=url) for name, url in urls.items()]
    bedrock, vertex, azure = await ask_for_lists(asked)
    assert "aws bedrock list-inference-profiles" in bedrock.failure
    assert "Model Garden" in vertex.failure
    assert azure.failure == "its address is not set"


@pytest.mark.anyio
async def test_azure_is_asked_on_the_surface_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2024-10-21")
    with LlmServer() as server:
        (answer,) = await ask_for_lists([ListRequest(provider="azure", base_url=server.url)])
    assert [model.id for model in answer.models] == ["scripted-1"]
    assert server.lookups[0].path == "/openai/models?api-version=2024-10-21"


@pytest.mark.anyio
async def test_one_failing_provider_does_not_disturb_the_others():
    shape = next(each for each in SHAPES if each["provider"] == "groq")
    refused = {"/openai/v1/models": Status(401)}
    with (
        LlmServer(pages=pages(shape)) as good,
        LlmServer(pages=refused) as bad,
        nobody_home() as nowhere,
        socket.create_server(("127.0.0.1", 0)) as mute,
    ):
        silent = f"http://127.0.0.1:{mute.getsockname()[1]}"
        asked = [
            ListRequest(provider="groq", base_url=f"{bad.url}/openai/v1", key=KEY),
            ListRequest(provider="groq", base_url=f"{nowhere}/v1", key=KEY),
            ListRequest(provider="groq", base_url=silent, key=KEY, seconds=0.2),
            ListRequest(provider="groq", base_url=f"{good.url}/openai/v1", key=KEY),
        ]
        answers = await ask_for_lists(asked)
    assert [answer.failure for answer in answers] == [
        "it rejected the key (status 401)",
        f"{nowhere.removeprefix('http://')} cannot be reached",
        "no answer within 0.2 seconds",
        "",
    ]
    assert answers[-1].models
    assert KEY not in repr(answers)


HOSTILE: dict[str, tuple[Any, str]] = {
    "no JSON": ("<html>Not found</html>", "the answer is not JSON"),
    "nothing": (b"", "the answer is not JSON"),
    "nested": (b"[" * 200_000, "the answer is not JSON"),
    "nested tables": (b'{"data":' * 200_000, "the answer is not JSON"),
    "no list": ({"data": {"id": "m"}}, "the answer is not a list of models"),
    "huge": (b"[" + b" " * LISTING_BYTES + b"]", "the list is larger than 16 MiB"),
    "a redirect": (Status(302, headers={"location": "/v1/other"}), "it answered with status 302"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("body", "failure"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_hostile_answer_becomes_one_sentence(body: Any, failure: str):
    page = body if isinstance(body, Status) else Status(200, body)
    with LlmServer(pages={"/v1/models": page}) as server:
        request = ListRequest(provider="openai", base_url=f"{server.url}/v1", key=KEY)
        (answer,) = await ask_for_lists([request])
    assert (answer.failure, answer.models) == (failure, ())


ODD_ROWS = [
    *(None, 7, "m", [], {}, {"id": 7}, {"id": ""}, {"id": None, "name": None}),
    *({"id": "bell\x07"}, {"id": "esc\x1b[31m"}, {"id": "line\nfeed"}, {"id": "x" * 201}),
    {"id": "\u202egnp.exe"},
]
ODD_FACTS = [
    {"context_length": "many", "pricing": [], "architecture": 7, "capabilities": 9},
    {"context_length": -1, "max_tokens": True, "pricing": {"prompt": "free", "completion": {}}},
    {"context_length": 1e300, "pricing": {"prompt": "nan", "completion": "inf"}},
    {"context_length": 10**30, "pricing": {"input": 10**30, "output": -4}},
    {"context_length": [1], "supports_tools": "yes", "thinking": 1, "tags": [[], {}, None]},
    {"meta": {"n_ctx": {}}, "limits": "none", "details": {"parameter_size": 7}},
    {"prompt_text_token_price": "x", "completion_text_token_price": None},
]


def test_odd_entries_are_left_out():
    assert read_list({"data": [*ODD_ROWS, {"id": "m"}]}) == (ListedModel(id="m"),)


@each_row("odd", ODD_FACTS)
def test_a_fact_of_the_wrong_type_counts_as_missing(odd: dict[str, Any]):
    assert read_list({"data": [{"id": "m", **odd}]}) == (ListedModel(id="m"),)


def test_a_list_is_read_up_to_a_limit_and_a_name_counts_once():
    many = [{"id": f"m{number}"} for number in range(MOST_MODELS + 5)]
    assert len(read_list(many) or ()) == MOST_MODELS
    assert read_list([{"id": "m", "context_length": 512}, {"id": "m"}]) == (
        ListedModel(id="m", window=512),
    )


@pytest.mark.anyio
async def test_local_servers_are_found_with_their_models():
    with LlmServer() as server, nobody_home() as nowhere:
        found = await local_servers(
            5, {"ollama": f"{nowhere}/v1", "vllm": f"{server.url}/v1", "lmstudio": "nonsense://"}
        )
    assert found == {"vllm": ["scripted-1"]}


def test_the_address_in_use_replaces_the_usual_one_of_a_local_server():
    usual = local_addresses("openai", "http://127.0.0.1:9/v1")
    assert usual["vllm"] == "http://127.0.0.1:8000/v1"
    assert local_addresses("vllm", None) == usual
    assert local_addresses("vllm", "https://gpu.example/v1") == usual
    own = "http://127.0.0.1:9/v1"
    assert local_addresses("vllm", own) == {**usual, "vllm": own}


@pytest.mark.anyio
async def test_a_server_that_does_not_answer_in_time_is_skipped():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"http://127.0.0.1:{mute.getsockname()[1]}/v1"
        assert await local_servers(0.1, {"ollama": address}) == {}


GLM = ListedModel(id="glm", window=1000, images=True, input_price=1.5)


def a_list(address: str, *models: ListedModel, fetched: float = 1.0) -> ModelList:
    return ModelList(provider="zai", address=address, fetched=fetched, models=models)


def test_a_stored_list_is_found_by_its_address(tmp_path: Path):
    file = tmp_path / "cache" / "models.json"
    keep_lists(file, [a_list("https://a.example/v1", GLM)])
    keep_lists(file, [a_list("https://b.example/v1", ListedModel(id="glm", window=9000))])
    facts = {"window": 1000, "images": True, "input_price": 1.5}
    assert listed_facts(file, "https://a.example/v1/", "glm") == facts
    assert listed_facts(file, "https://b.example/v1", "glm") == {"window": 9000}
    assert listed_facts(file, "https://b.example/v2", "glm") == {}
    assert listed_facts(file, "https://a.example/v1", "other") == {}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b'{"version":1}'),
        b'{"version":2,"lists":[]}',
        b'{"version":1,"lists":[{"provider":"zai","address":"a","fetched":"x","models":[]}]}',
        b" " * (LARGEST_FILE + 1),
    ],
    ids=lambda damage: repr(damage[:20]),
)
def test_a_damaged_file_counts_as_none_and_is_replaced(tmp_path: Path, damage: bytes):
    file = tmp_path / "models.json"
    file.write_bytes(damage)
    assert read_lists(file) == {}
    keep_lists(file, [a_list("https://a.example", GLM)])
    assert read_lists(file)["https://a.example"].models == (GLM,)


def test_the_file_stays_below_its_limit_and_drops_the_oldest(tmp_path: Path):
    file = tmp_path / "models.json"
    many = [ListedModel(id=f"{number:0200}", window=1000) for number in range(MOST_MODELS)]
    for age in range(20):
        keep_lists(file, [a_list(f"https://{age}.example", *many, fetched=age)])
    assert file.stat().st_size <= LARGEST_FILE
    kept = read_lists(file)
    assert "https://19.example" in kept
    assert "https://0.example" not in kept


def test_the_address_in_the_file_has_no_password():
    assert address_of("https://me:secret@a.example:8/v1/?key=secret") == "https://a.example:8/v1"
    assert address_of("http://[") == ""


WRITER = """
import sys
from pathlib import Path
from rookery.providers.model_cache import ModelList, keep_lists
from rookery.providers.listing_shapes import ListedModel
models = tuple(ListedModel(id=f"m{number}", window=1000) for number in range(500))
print("begun", flush=True)
for turn in range(100_000):
    one = ModelList(provider="zai", address="https://a.example", fetched=turn, models=models)
    keep_lists(Path(sys.argv[1]), [one])
"""


def test_a_kill_while_writing_leaves_a_whole_file(tmp_path: Path):
    file = tmp_path / "models.json"
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout
            writer.stdout.readline()
            seen = file.stat().st_mtime_ns if file.exists() else 0
            while not file.exists() or file.stat().st_mtime_ns == seen:
                os.sched_yield()
            writer.send_signal(signal.SIGKILL)
        assert len(read_lists(file)["https://a.example"].models) == 500


def test_the_file_omits_unknown_facts(tmp_path: Path):
    file = tmp_path / "models.json"
    keep_lists(file, [a_list("https://a.example", GLM)])
    assert msgspec.json.decode(file.read_bytes()) == {
        "version": 1,
        "lists": [
            {
                "provider": "zai",
                "address": "https://a.example",
                "fetched": 1.0,
                "models": [{"id": "glm", "window": 1000, "images": True, "input_price": 1.5}],
            }
        ],
    }
