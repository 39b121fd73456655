"""`rookery mcp`: servers are listed, tested, added and removed."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from rookery.errors import SettingsError
from rookery.mcp.cli.mcp_command import command
from rookery.permissions.trust import TrustStore
from support.access_lists import restrict, still_restricted
from support.mcp_workspace import MISBEHAVING, Bench


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str, code: int = 0) -> str:
        assert (
            command.main(list(arguments), standalone_mode=False, help_option_names=["-h", "--help"])
            == code
        )
        out, err = capsys.readouterr()
        return err if code else out

    return call


def refused(words: str, *arguments: str) -> None:
    with pytest.raises(SettingsError, match=words):
        command.main(list(arguments), standalone_mode=False, help_option_names=["-h", "--help"])


def configured(home: Path) -> dict[str, Any]:
    return json.loads((home / "config" / "mcp.json").read_bytes())


def program(way: str) -> list[str]:
    return [sys.executable, "-S", "-E", str(MISBEHAVING), way]


def test_list_without_servers_explains_how_to_add_one(printed):
    assert printed("list") == (
        "No MCP server is configured. Add one with: rookery mcp add NAME -- COMMAND\n"
    )
    assert printed() == printed("list")
    assert json.loads(printed("list", "--json")) == {"servers": [], "problems": [], "notes": []}


def test_a_program_is_added_tested_listed_and_removed(printed, home: Path):
    printed("add", "one", "--env", "A=b=c", "--timeout", "5", "--", *program("well"))
    assert configured(home) == {
        "mcpServers": {
            "one": {
                "command": sys.executable,
                "args": program("well")[1:],
                "env": {"A": "b=c"},
                "timeout": 5,
            }
        }
    }
    assert (home / "config" / "mcp.json").stat().st_mode & 0o777 == 0o600
    assert "idle  user  never used" in printed("list")
    tested = printed("test", "one").splitlines()
    assert tested[0].startswith("one answered in ")
    assert tested[0].endswith(" s: 1 tool, 0 resources, 0 prompts.")
    assert tested[1].endswith("greet: Greets.")
    assert "idle  user  1 tool, just now" in printed("list")
    assert "Removed one" in printed("remove", "one")
    assert configured(home) == {"mcpServers": {}}


def test_options_of_a_program_need_a_separator():
    add = ["add", "files", "npx", "-y", "server-filesystem"]
    with pytest.raises(click.UsageError, match=r"'-y'\. .*: rookery mcp add NAME -- COMMAND"):
        command.main(add, standalone_mode=False, help_option_names=["-h", "--help"])


def test_a_url_is_added(printed, home: Path):
    printed("add", "far", "--url", "https://x.test/mcp", "--header", "Authorization=${env:T}")
    printed("add", "old", "--url", "https://x.test/sse", "--transport", "sse")
    assert configured(home)["mcpServers"] == {
        "far": {
            "type": "streamable-http",
            "url": "https://x.test/mcp",
            "headers": {"Authorization": "${env:T}"},
        },
        "old": {"type": "sse", "url": "https://x.test/sse"},
    }


def test_testing_a_server_accepts_its_current_files(printed, home: Path):
    bench = Bench(home.parent)
    bench.configure(home / "config" / "mcp.json", one=bench.script())
    for words in ("", "\n# and a word more\n"):
        with (bench.workspace / "server.py").open("a") as file:
            file.write(words)
        assert "1 tool," in printed("test", "one", "-w", str(bench.workspace))


def test_a_failing_server_reports_the_reason(printed):
    printed("add", "bad", "--", *program("dies at start"))
    assert "exit code 3. It last wrote: cannot find my database" in printed("test", "bad", code=1)
    [server] = json.loads(printed("list", "--json"))["servers"]
    assert server["state"] == "failed"
    assert "exit code 3" in server["error"]


def test_testing_an_unknown_server_is_an_error(printed):
    assert "No such MCP server: 'none'. Available: none." in printed("test", "none", code=1)


def test_listing_starts_nothing_and_shows_no_secret(
    printed, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("TOKEN", "s3cret")
    received = tmp_path / "heard"
    received.mkdir()
    printed("add", "one", "--", *program("well"), str(received), "--token", "${env:TOKEN}")
    assert "s3cret" not in printed("list") + printed("list", "--json")
    assert list(received.iterdir()) == []


def test_a_token_in_the_user_file_is_masked(printed):
    printed("add", "one", "--env", "TRACKER_TOKEN=env-012345", "--", "x", "--token=arg-012345")
    printed("add", "two", "--", "docker", "run", "-e", "API_KEY=arg-012345", "--key", "arg-012345")
    shown = printed("list") + printed("list", "--json")
    assert "012345" not in shown
    assert "x --token=***" in shown
    assert "docker run -e API_KEY=*** --key ***" in shown


def test_adding_a_server_warns_about_a_relative_dot_path(printed):
    said = printed("add", "files", "--", "npx", "-y", "server-filesystem", ".")
    assert "started in an empty folder, which is what . means to it" in said
    [reported] = json.loads(printed("list", "--json"))["notes"]
    assert reported in printed("list")
    said = printed("add", "right", "--", "npx", "-y", "server-filesystem", "${workspaceFolder}")
    assert "empty folder" not in said


def test_project_servers_are_kept_in_the_project_file(printed, home: Path):
    said = printed("add", "--project", "theirs", "--", *program("well"))
    assert "not started before the folder is trusted" in said
    file = Path(".rookery/mcp.json")
    assert list(json.loads(file.read_bytes())["mcpServers"]) == ["theirs"]
    assert file.stat().st_mode & 0o777 == 0o644
    restrict(file)
    printed("add", "--project", "another", "--", *program("well"))
    assert still_restricted(file)
    printed("remove", "--project", "another")
    assert "untrusted  project" in printed("list")
    assert "not trusted" in printed("test", "theirs", code=1)
    refused(r"It is in .*mcp.json", "remove", "theirs")
    TrustStore(home / "config" / "trust.json").trust(Path.cwd())
    printed("test", "theirs")
    printed("remove", "--project", "theirs")


def test_adding_a_server_keeps_other_settings(printed, home: Path):
    file = home / "config" / "mcp.json"
    file.parent.mkdir(parents=True)
    other = {"mcpServers": {"x": {"command": "y", "unknown": [1]}}, "comment": "mine"}
    file.write_text(json.dumps(other), encoding="utf-8")
    printed("add", "one", "--", "z")
    changed = configured(home)
    assert changed["mcpServers"].pop("one") == {"command": "z", "args": []}
    assert changed == other


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["add", "one"], "Give a command after --, or --url"),
        (["add", "one", "--url", "http://h/", "--", "x"], "and not both"),
        (["add", "one", "--url", "ftp://h/"], "one was not added: its url must begin"),
        (["add", "a\nb", "--", "x"], "its name must be one line"),
        *(
            (["add", "--url", "http://h/", "--", name], "was not added: a server's name is 1 to 64")
            for name in ("a/b", "a b", "..", "é", "a:b", "a\u202eb")
        ),
        (["add", "--url", "http://h/", ""], "was not added: its name must be one line"),
        (["add", "--url", "http://h/", "x" * 65], "was not added: its name must be one line"),
        (["add", "one", "--env", "A", "--", "x"], "Give --env as NAME=VALUE"),
        (["add", "one", "--timeout", "0", "--", "x"], "timeout: expected"),
        (["remove", "none"], "No such server in that file: none. See rookery mcp list"),
    ],
)
def test_bad_arguments_are_explained(arguments: list[str], reported: str, home: Path):
    refused(re.escape(reported), *arguments)
    assert not (home / "config" / "mcp.json").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": 1}'])
def test_an_unreadable_config_file_is_left_unchanged(home: Path, content: str):
    file = home / "config" / "mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    refused("nothing was changed", "add", "one", "--", "x")
    assert file.read_text(encoding="utf-8") == content


def test_a_server_name_cannot_be_added_twice(printed, home: Path):
    printed("add", "one", "--", "x")
    refused("already has a server one", "add", "one", "--", "y")
    assert configured(home)["mcpServers"]["one"]["command"] == "x"


def test_a_project_file_behind_an_outside_link_is_refused(tmp_path: Path):
    Path(".rookery").symlink_to(tmp_path)
    refused("leads out of the project", "add", "--project", "one", "--", "x")
    assert not (tmp_path / "mcp.json").exists()


def test_get_shows_a_server_with_its_secrets_masked(printed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VALUE", "s3cret-value")
    definition = {
        "command": "a",
        "args": ["--token=s3cret-arg"],
        "env": {"KEY": "s3cret-env", "PLAIN": "b"},
    }
    printed("add-json", "one", json.dumps(definition))
    text = printed("get", "one")
    assert "starts: a --token=***\nenv: KEY=*** PLAIN=b\ntimeout: 60.0\nstate: idle\n" in text
    fields = json.loads(printed("get", "one", "--json"))
    assert fields["env"] == {"KEY": "***", "PLAIN": "b"}
    assert "s3cret" not in text + json.dumps(fields)
    refused("No such server: two. See rookery mcp list.", "get", "two")


def test_a_server_is_added_by_its_json(printed, home: Path):
    one = {"command": "a", "args": ["b"]}
    printed("add-json", "one", json.dumps(one))
    printed("add-json", "two", json.dumps({"mcpServers": {"two": one}}))
    assert configured(home) == {"mcpServers": {"one": one, "two": one}}
    refused("that is not valid JSON", "add-json", "bad", "{")
    refused("give its definition as an object", "add-json", "bad", "[]")
    refused("it needs a command", "add-json", "bad", "{}")


def test_servers_of_other_agents_are_listed_and_imported(
    printed, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    theirs = {
        "mcpServers": {"a": {"command": "x", "args": ["--api-key", "s3cret"], "alwaysAllow": ["*"]}}
    }
    (tmp_path / ".claude.json").write_text(json.dumps(theirs))
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "y"}, "b c": {"command": "z"}}}'
    )
    listed = printed("import")
    assert "1  a    claude" in listed
    assert "x --api-key ***" in listed
    assert "s3cret" not in listed + printed("import", "--json")
    assert not (home / "config" / "mcp.json").exists()
    refused("Several definitions of a were found .claude, cursor.", "import", "a")
    printed("import", "a", "--from", "claude")
    assert configured(home)["mcpServers"] == {
        "a": {"command": "x", "args": ["--api-key", "s3cret"]}
    }
    told = printed("import", "--all", code=9)
    assert "already has a server a; remove it first." in told
    assert "b c was not added: a server's name is" in told
    refused("No such agent: vim", "import", "--from", "vim")
