"""`rookery list`: the sessions there are, for people and for scripts."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    CompletionOffered,
    Event,
    Fact,
    TaskOpened,
    Usage,
)
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import title
from rookery.storage.sessions import TaskStore
from support.terminal_session import Installed


def keep(task_id: str, ts: int, *facts: Fact) -> None:
    journal = TaskStore(find_places(os.environ)).create(task_id)
    for seq, fact in enumerate(facts, 1):
        journal.write(Event(seq, 0, ts + seq, fact))
    journal.close()


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the command prints, if it succeeds."""

    def call(*arguments: str) -> str:
        assert run(["list", *arguments]) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def three_sessions() -> None:
    here = str(Path.cwd())
    keep("s1", 0, TaskOpened(text="Fix the\n  parser", workspace=here))
    done = Answered(ask_id="q", ask=AskKind.COMPLETION_RESULT, reply="yes")
    cost = AssistantSpoke(
        request_id="r", blocks=(), usage=Usage(tokens_in=9, tokens_out=2, cost=0.5)
    )
    offered = CompletionOffered(result="The cache is invalidated now.")
    keep("s2", 10_000, TaskOpened(text="Cache", workspace=here), cost, offered, done)
    keep("s3", 20_000, TaskOpened(text="Elsewhere", workspace="/other", mode="ask"))


@pytest.mark.usefixtures("three_sessions")
def test_sessions_of_this_folder_are_listed_newest_first(printed: Callable[..., str]):
    assert printed().splitlines() == [
        "s2\t1970-01-01T00:00:10+00:00\tcompleted\tCache",
        "s1\t1970-01-01T00:00:00+00:00\topen\tFix the parser",
    ]
    assert printed("-w", "..") == "No sessions in this folder.\n"


@pytest.mark.usefixtures("three_sessions")
def test_all_lists_the_sessions_of_every_folder(printed: Callable[..., str]):
    assert [line.split("\t")[0] for line in printed("--all").splitlines()] == ["s3", "s2", "s1"]


@pytest.mark.usefixtures("three_sessions")
def test_json_output_is_one_object(printed: Callable[..., str]):
    listed = json.loads(printed("--format", "JSON"))
    assert listed["workspace"] == str(Path.cwd())
    assert listed["sessions"][0] == {
        "id": "s2",
        "task": "Cache",
        "ts": 10_004,
        "workspace": str(Path.cwd()),
        "mode": "code",
        "status": "completed",
        "cost": 0.5,
        "tokensIn": 9,
        "tokensOut": 2,
    }
    everywhere = json.loads(printed("--all", "--format", "json"))
    assert everywhere["workspace"] is None
    assert [row["mode"] for row in everywhere["sessions"]] == ["ask", "code", "code"]


@pytest.mark.usefixtures("three_sessions")
def test_a_search_covers_the_text_of_all_sessions(printed: Callable[..., str]):
    [session, snippet] = printed("--search", "invalidated cache").splitlines()
    assert session.startswith("s2\t")
    assert "invalidated" in snippet
    [row] = json.loads(printed("--search", "elsewhere", "--format", "json"))["sessions"]
    assert (row["id"], row["workspace"]) == ("s3", "/other")
    assert printed("--search", "nobody ever said that") == "Nothing was found.\n"


class TestForPrograms:
    """`rookery list WORD`."""

    @pytest.mark.usefixtures("three_sessions")
    def test_sessions_are_json_unless_text_is_wanted(self, printed: Callable[..., str]):
        listed = json.loads(printed("sessions"))
        assert [row["id"] for row in listed["sessions"]] == ["s2", "s1"]
        assert printed("sessions", "--format", "TEXT").splitlines() == [
            "s2\t1970-01-01T00:00:10+00:00\tCache",
            "s1\t1970-01-01T00:00:00+00:00\tFix the parser",
        ]
        assert printed("sessions", "--format", "text", "-w", "..") == ""

    def test_modes_and_commands_are_those_of_the_folder(
        self, home: Path, printed: Callable[..., str]
    ):
        Path(".rookery/commands").mkdir(parents=True)
        Path(".rookery/commands/tidy.md").write_text("---\ndescription: Tidy up\n---\nTidy.\n")
        assert "tidy" not in printed("commands")
        TrustStore(find_places(os.environ).trust_file).trust(Path.cwd())
        commands = json.loads(printed("commands"))["commands"]
        assert {"name": "tidy", "source": "project", "description": "Tidy up"} in commands
        assert "/tidy (project) - Tidy up" in printed("commands", "--format", "text").splitlines()
        modes = json.loads(printed("modes"))["modes"]
        assert [mode["slug"] for mode in modes][:2] == ["code", "ask"]
        assert "ask\tAsk" in printed("modes", "--format", "text").splitlines()
        assert not (home / "data").exists()

    def test_models_are_listed_if_there_is_a_key(
        self, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
        models = json.loads(printed("models", "-e", "ignored"))["models"]
        assert models["claude-opus-5-5"]["provider"] == "anthropic"
        assert models["claude-opus-5-5"]["window"] > 0
        lines = printed("models", "--format", "text").splitlines()
        assert lines == sorted(models)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["things"],
            ["modes", "--format", ""],
            ["modes", "--format", "yaml"],
            ["modes", "--all"],
            ["commands", "--search", "x"],
        ],
        ids=" ".join,
    )
    def test_bad_input_gives_a_one_sentence_error(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ):
        assert run(["list", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def rookery(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    rookery = Installed(tmp_path_factory.mktemp("installed"))
    script = rookery.script(
        "- calls: [{tool: attempt_completion, arguments: {result: Invalidated.}}]"
    )
    assert rookery.run("-p", *script, "Fix the cache " * 20).returncode == 0
    return rookery


class TestAtATerminal:
    def test_sessions_are_a_table_that_fits(self, rookery: Installed):
        [session] = rookery.sessions()
        with rookery.terminal("list", columns=60) as terminal:
            assert terminal.exit_code() == 0
        row, empty, hint = terminal.screen.splitlines()
        assert row == f"{session['id'][:8]}  just now  completed  code  Fix the cache Fix the …"
        assert len(row) == 60
        assert (empty, hint) == ("", "Continue with: rookery --session-id ID")
        assert "\x1b" not in terminal.raw

    def test_sessions_of_all_folders_are_shown_with_their_folder(self, rookery: Installed):
        for flags in (["--all"], ["--search", "invalidated"]):
            with rookery.terminal(
                "list", *flags, columns=120, HOME=str(rookery.workspace.parent)
            ) as terminal:
                assert terminal.exit_code() == 0
            assert "  completed  code  ~/work  Fix the cache" in terminal.screen
        assert "\n  Invalidated.\n" in terminal.screen

    def test_colours_are_as_the_settings_say(self, rookery: Installed):
        with rookery.terminal("list", ROOKERY_UI_COLOUR="always") as terminal:
            assert terminal.exit_code() == 0
        assert "\x1b[32mcompleted" in terminal.raw


def test_list_reports_that_there_are_no_sessions(printed: Callable[..., str]):
    assert printed() == "No sessions in this folder.\n"
    assert json.loads(printed("--format", "json"))["sessions"] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "(untitled)"),
        (" \n\t ", "(untitled)"),
        ("two\n  words", "two words"),
        ("x" * 120, "x" * 120),
        ("x" * 121, "x" * 117 + "..."),
        ("a\x1b[31mb", "a␛[31mb"),
    ],
)
def test_a_title_is_one_harmless_line_of_at_most_120_characters(text: str, shown: str):
    assert title(text) == shown
