"""`rookery models` in a separate process, with providers on real sockets."""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_server import LlmServer
from llm_server.parts import Status
from rookery.providers.listing_shapes import ListedModel
from rookery.providers.model_cache import ModelList, keep_lists, read_lists
from support.text_process import start_text
from support.tiny_model import tiny_model

KEY = "sk-secret-0123456789"
LIST = {
    "data": [
        {
            "id": "glm-9",
            "context_length": 70_000,
            "supports_image_input": True,
            "supports_tools": True,
            "pricing": {"prompt": "0.000002", "completion": "0.000008"},
        },
        {"id": "evil\x1b[31m", "context_length": 512},
    ]
}
LIST_OF_ROO = {"data": [{"id": "anthropic/claude-opus-5.5"}]}


class Shell:
    """The command with two providers that have keys: one by settings, one by its variable."""

    def __init__(self, home: Path, openrouter: str, roo: str = "") -> None:
        self.file = home / "cache" / "models.json"
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "ROOKERY_HOME")},
            "LANG": "C.UTF-8",
            "ROOKERY_PROVIDER": "openrouter",
            "ROOKERY_MODEL": "glm-9",
            "ROOKERY_BASE_URL": f"{openrouter}/v1",
            "OPENROUTER_API_KEY": KEY,
        }
        if roo:
            self.environ |= {"ROO_API_KEY": KEY, "ROO_CODE_PROVIDER_URL": roo}

    def run(self, *words: str, status: int = 0) -> str:
        with start_text(["models", *words], self.environ, Path.cwd()) as process:
            out, err = process.communicate(timeout=60)
            code = process.wait()
        assert KEY not in out + err
        assert "Traceback" not in err
        assert code == status, err
        return out if status == 0 else out + err

    def row(self, *words: str) -> list[str]:
        (line,) = [line for line in self.run(*words).splitlines() if "  glm-9 " in line]
        return line.split()


def times_asked(server: LlmServer) -> int:
    return sum(request.path == "/v1/models" for request in server.lookups)


@pytest.fixture
def page() -> dict[str, Any]:
    return {"/v1/models": Status(200, LIST)}


def test_the_table_shows_what_the_provider_lists_and_asks_once(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        shell = Shell(home, server.url)
        shown = ["openrouter", "glm-9", "70,000", "2", "8", "images,", "tools", "default"]
        assert shell.row() == shown
        assert shell.row() == shown
        assert times_asked(server) == 1
        assert shell.row("--refresh") == shown
        assert times_asked(server) == 2
    stored = shell.file.read_text(encoding="utf-8")
    assert "glm-9" in stored
    assert KEY not in stored
    assert "evil" not in stored
    # the provider is gone, and its list is still known
    assert shell.row() == shown


def test_a_provider_that_fails_is_one_line_and_the_others_are_shown(
    home: Path, page: dict[str, Any]
):
    with LlmServer(pages=page) as server, LlmServer(pages={"/v1/models": Status(500)}) as broken:
        text = Shell(home, server.url, broken.url).run()
    assert "note: roo: it answered with status 500. Showing the models rookery knows." in text
    assert "openrouter  glm-9" in text
    assert "roo         anthropic/claude-opus-5.5" in text


def test_one_provider_can_be_asked_alone(home: Path, page: dict[str, Any]):
    offered = {"/v1/models": Status(200, LIST_OF_ROO)}
    with LlmServer(pages=page) as server, LlmServer(pages=offered) as roo:
        text = Shell(home, server.url, roo.url).run("roo")
    assert "anthropic/claude-opus-5.5" in text
    assert "glm-9" not in text
    assert not server.requests + server.lookups


def test_the_models_of_a_server_at_another_address_can_be_listed(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        shell = Shell(home, "http://127.0.0.1:1")
        text = shell.run("vllm", "--base-url", f"{server.url}/v1")
        shown = f"rookery --provider vllm --base-url {server.url}/v1 -m glm-9 "
        assert shown in text
    failed = shell.run("vllm", "--base-url", f"{server.url}/v1", status=1)
    assert f"note: vllm: {server.url.removeprefix('http://')} cannot be reached." in failed
    assert "--base-url needs a provider" in shell.run("--base-url", server.url, status=2)


def test_without_a_default_model_the_note_says_how_to_set_one(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        shell = Shell(home, server.url)
        shell.environ |= {"ROOKERY_PROVIDER": "vllm", "ROOKERY_MODEL": ""}
        text = shell.run()
    assert "note: No default model. Set one with: rookery config set model NAME" in text
    assert "vllm        glm-9" in text


def test_the_suggested_model_is_the_usual_one(home: Path):
    text = Shell(home, "http://127.0.0.1:1").run("anthropic", status=1)
    assert 'To use one: rookery --provider anthropic -m claude-opus-5-5 "your task"' in text


def test_a_failed_refresh_keeps_the_last_list(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        shell = Shell(home, server.url)
        shell.run()
        page["/v1/models"] = Status(401)
        text = shell.run("--refresh")
    assert "note: openrouter: it rejected the key (status 401). Showing the last list." in text
    assert "70,000" in text
    assert "No such provider: 'nobody'" in shell.run("nobody", status=2)


def test_the_age_of_the_lists_is_shown(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        shell = Shell(home, server.url)
        assert "--refresh" not in shell.run()
        (known,) = read_lists(shell.file).values()
        old = msgspec.structs.replace(known, fetched=known.fetched - 3 * 3600)
        keep_lists(shell.file, [old])
        assert "The lists are up to 3 hours old. --refresh fetches them again." in shell.run()


def test_json_has_all_that_is_known(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        listed = json.loads(Shell(home, server.url).run("--format", "json"))
    assert listed["default"] == {"provider": "openrouter", "model": "glm-9"}
    about = listed["providers"]["openrouter"]
    assert (about["address"], about["failure"]) == (f"{server.url}/v1", None)
    assert about["fetched"] > 1_700_000_000
    (model,) = about["models"]
    expected = {"window": 70_000, "images": True, "tools": True, "input_price": 2.0}
    assert {name: model[name] for name in expected} == expected


def test_a_damaged_cache_is_replaced(home: Path, page: dict[str, Any]):
    with LlmServer(pages=page) as server:
        shell = Shell(home, server.url)
        shell.file.parent.mkdir(parents=True)
        shell.file.write_bytes(b'{"version":1,"lists":[')
        assert "70,000" in shell.row()
    assert read_lists(shell.file)


def test_settings_take_precedence_over_the_list_and_the_list_over_the_rest(home: Path):
    shell = Shell(home, "http://127.0.0.1:1")
    listed = ListedModel(id="glm-9", window=70_000, input_price=2.0, output_price=8.0)
    keep_lists(
        shell.file,
        [
            ModelList(
                provider="openrouter",
                address="http://127.0.0.1:1/v1",
                fetched=1.0,
                models=(listed,),
            )
        ],
    )
    said = shell.run("describe", "glm-9", "window=65536", "images=true")
    assert said == f"glm-9: window = 65536, images = true (in {home}/config/settings.toml)\n"
    assert shell.row()[:6] == ["openrouter", "glm-9", "65,536", "2", "8", "images"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["glm-9"], "Give facts as NAME=VALUE"),
        (["glm-9", "window"], "Give facts as NAME=VALUE"),
        (["glm-9", "windw=4"], "did you mean"),
        (["glm-9", "window=0"], "must be a whole number of at least 1"),
        (["glm-9", "images=perhaps"], "must be true or false"),
        (["glm-9", "window=4", "input_price=free"], "must be"),
    ],
)
def test_a_wrong_description_changes_nothing(home: Path, words: list[str], problem: str):
    shell = Shell(home, "http://127.0.0.1:1")
    assert problem in shell.run("describe", *words, status=2)
    assert not (home / "config" / "settings.toml").exists()


def test_model_files_are_listed_with_their_size(home: Path, page: dict[str, Any], tmp_path: Path):
    models = tmp_path / "user/.lmstudio/models"
    models.mkdir(parents=True)
    with LlmServer(pages=page) as server:
        shell = Shell(home, server.url)
        shell.environ["HOME"] = str(tmp_path / "user")
        assert "note: local: No model file was found" in shell.run("local", status=1)
        tiny_model(models / "tiny.gguf")
        assert re.search(r"^local +tiny +4,096 +0 +0 +1 MiB$", shell.run(), re.MULTILINE)
        assert "glm-9" not in shell.run("local")
        (described,) = json.loads(shell.run("local", "--format", "json"))["providers"]["local"][
            "models"
        ]
    assert (described["window"], described["size"]) == (4096, (models / "tiny.gguf").stat().st_size)
