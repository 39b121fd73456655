"""`rookery fork` and `rookery search`."""

import json
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.asks import AskKind
from rookery.core.facts import Asked, TaskOpened
from rookery.core.text.terminal_text import Paint
from rookery.storage.cli.list import marked
from support.stored_sessions import CHILD, OTHER, PARENT, keep, keep_family, store
from support.terminal_session import Installed

Captured = pytest.CaptureFixture[str]

SCRIPT = """
- say: I write it.
  calls: [{tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}]
- calls: [{tool: attempt_completion, arguments: {result: First done.}}]
"""
MORE = f"""{SCRIPT}
- calls: [{{tool: attempt_completion, arguments: {{result: Gone on with.}}}}]
- calls: [{{tool: attempt_completion, arguments: {{result: And on.}}}}]
"""


class TestFork:
    def test_a_fork_continues_and_its_source_is_unchanged(self, tmp_path: Path):
        (tmp_path / "installed").mkdir()
        rookery = Installed(tmp_path / "installed")
        assert rookery.run("-p", *rookery.script(SCRIPT), "Make a file").returncode == 0
        [source] = rookery.sessions()
        made = rookery.workspace / "made.txt"
        made.write_text("changed by its owner\n")
        fork = json.loads(rookery.run("fork", "--format", "json").stdout)
        assert fork["from"] == source["id"]
        before = rookery.run("show", "--json", source["id"]).stdout
        again = rookery.run(
            "-p", *rookery.script(MORE), "--session-id", fork["id"], "And now another thing"
        )
        assert (again.returncode, again.stdout) == (0, "Gone on with.\n")
        assert made.read_text() == "changed by its owner\n"
        assert rookery.run("show", "--json", source["id"]).stdout == before
        reported = rookery.run("show", fork["id"]).stdout
        assert (
            f"note: This session was forked from {source['id']} at event {fork['at']}." in reported
        )
        assert reported.index("I write it.") < reported.index("And now another thing")
        assert rookery.run("-p", *rookery.script(MORE), "-c", "More").returncode == 0
        assert rookery.sessions()[0]["id"] == fork["id"]

    def test_a_fork_ends_before_a_running_call_and_says_how_to_continue(self, capsys: Captured):
        keep_family(Path.cwd())
        assert run(["fork", PARENT[:8], "--at", "6"]) == 0
        text = capsys.readouterr().out
        assert "A call was running at event 6, so the fork ends before it, at 5." in text
        [new] = {one.id for one in store().list() if one.title == "Change the world"} - {PARENT}
        assert f"Continue with: rookery --session-id {new}" in text

    @pytest.mark.parametrize(
        "arguments", [["--at", "99"], ["--at", "0"], ["--at", "x"], ["zzzzzzzz"]], ids=" ".join
    )
    def test_bad_input_gives_a_one_sentence_error(self, arguments: list[str], capsys: Captured):
        keep_family(Path.cwd())
        assert run(["fork", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert len(store().list()) == 4


class TestSearch:
    @pytest.fixture(autouse=True)
    def family(self) -> None:
        keep_family(Path.cwd())

    def test_sessions_of_this_folder_are_found_with_the_words_marked(self, capsys: Captured):
        assert run(["search", "moon"]) == 0
        first, snippet = capsys.readouterr().out.splitlines()
        assert first.startswith("aaaaaaaa  ")
        assert first.endswith("  Change the world")
        assert "*moon*" in snippet

    def test_all_words_must_occur_and_all_searches_every_folder(self, capsys: Captured):
        assert run(["search", "elsewhere"]) == 1
        assert "--all searches every folder" in capsys.readouterr().out
        assert run(["search", "--all", "elsewhere"]) == 0
        assert "/other/folder  Elsewhere" in capsys.readouterr().out
        assert run(["search", "moon", "elsewhere", "--all"]) == 1

    def test_programs_get_json(self, capsys: Captured):
        assert run(["search", "look", "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)["sessions"]
        assert CHILD in {each["id"] for each in found}
        assert all("look" in each["snippet"].lower() for each in found)
        assert run(["search", "nobody said that", "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out) == {"sessions": []}
        assert OTHER not in {each["id"] for each in found}

    def test_a_question_about_a_file_is_shown_like_the_file(self, capsys: Captured):
        payload = {"tool": "newFileCreated", "content": '"""Say.\n\nA \\ comet."""\n'}
        where = str(Path.cwd())
        asked = Asked(ask_id="a", ask=AskKind.TOOL, text=json.dumps(payload))
        keep("odd", TaskOpened(text="Task", workspace=where), asked)
        assert run(["search", "comet"]) == 0
        assert '"""Say. A \\ *comet*."""\n' in capsys.readouterr().out

    @pytest.mark.parametrize("arguments", [[], [" "], ["--format", "xml", "x"]])
    def test_bad_input_gives_a_one_sentence_error(self, arguments: list[str], capsys: Captured):
        assert run(["search", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    @pytest.mark.parametrize(
        ("text", "words", "said"),
        [
            ("The Moon", ["moon"], "The *Moon*"),
            ("a.b", ["."], "a*.*b"),
            ("moonlight", ["moon", "moonlight"], "*moonlight*"),
        ],
    )
    def test_matching_words_are_marked(self, text: str, words: list[str], said: str):
        assert marked(text, words, Paint(False)) == said
        assert "\x1b[1m" in marked(text, words, Paint(True))
