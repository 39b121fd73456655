"""`rookery show` and `rookery export`: a session to be read, or passed on."""

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    Ending,
    Noted,
    Rewound,
    TaskOpened,
    ToolFinished,
)
from rookery.core.replies import denied
from support.stored_sessions import (
    CHILD,
    DIFF,
    FACTS_OF_PARENT,
    GRANDCHILD,
    PARENT,
    keep,
    keep_family,
    store,
)

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def family() -> None:
    keep_family(Path.cwd())


class TestShow:
    def test_a_session_is_printed_from_its_beginning_to_its_end(self, capsys: Captured):
        assert run(["show", PARENT]) == 0
        text = capsys.readouterr().out
        places = [
            text.index(part)
            for part in (
                f"session {PARENT} · ",
                "completed · code mode · m · 1,200 tokens in, 30 out · $0.0125",
                "> Change the world",
                "I change it.",
                "● Edit a.txt\n  @@ -1 +1 @@\n  -world\n  +moon",
                "● Run cat a.txt",
                "  hello",
                "● Start a sub-task in ask mode\n  Look at it.",
                "✔ It says **moon** now.",
                f"It had 2 sub-tasks: rookery show --tree {PARENT}",
            )
        ]
        assert places == sorted(places)
        assert "\x1b" not in text

    def test_colours_are_as_the_settings_say(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ROOKERY_UI_COLOUR", "always")
        run(["show", PARENT])
        assert "\x1b[32m+moon" in capsys.readouterr().out
        run(["show", "--json", PARENT])
        assert "\x1b" not in capsys.readouterr().out

    def test_an_id_prefix_is_enough_and_the_default_is_the_last_session(self, capsys: Captured):
        assert run(["show", CHILD[:8]]) == 0
        assert "> Look at it." in capsys.readouterr().out
        assert run(["show"]) == 0
        assert "> Change the world" in capsys.readouterr().out

    def test_facts_are_one_json_object_per_line(self, capsys: Captured):
        assert run(["show", "--json", PARENT]) == 0
        facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [fact["seq"] for fact in facts] == list(range(1, FACTS_OF_PARENT + 1))
        assert facts[0]["kind"] == "task_opened"

    def test_facts_are_escaped_at_a_terminal(self):
        words = "\x9b31m \u202e \x7f \U000e0041 bücher"
        keep("oddity", TaskOpened(text=words))
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "rookery", "show", "--json", "oddity"]
        with open(ours, "rb") as seen:
            with os.fdopen(theirs, "wb") as out:
                assert subprocess.run(command, stdout=out, check=False).returncode == 0
            line = seen.readline().decode()
        assert json.loads(line)["text"] == words
        assert not set(line) & set("\x9b\u202e\x7f\U000e0041")
        assert "bücher" in line

    def test_the_tree_has_the_session_and_its_sub_tasks(self, capsys: Captured):
        assert run(["show", "--tree", PARENT]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "aaaaaaaa  Change the world  (completed, code, $0.0125)",
            "└ bbbbbbbb  Look at it.  (completed, ask)",
            "  └ cccccccc  Look closer.  (open, ask)",
        ]
        assert run(["show", "--tree", CHILD]) == 0
        assert capsys.readouterr().out.startswith("bbbbbbbb  Look at it.")

    def test_rewound_steps_are_left_out(self, capsys: Captured):
        keep("back", TaskOpened(text="Task"), Noted(text="wrong way"), Rewound(to=1))
        run(["show", "back"])
        assert "wrong way" not in capsys.readouterr().out

    def test_rejected_calls_do_not_look_performed(self, capsys: Captured):
        reported = {"ask": AskKind.TOOL, "call_id": "c1", "text": "{}", "title": "Edit b.txt"}
        keep(
            "rejected",
            TaskOpened(text="Task"),
            Asked(ask_id="q1", diff="+x", **reported),
            Answered(ask_id="q1", ask=AskKind.TOOL, reply="no", text="not so"),
            ToolFinished(call_id="c1", text=denied("not so"), ending=Ending.DENIED),
        )
        run(["show", "rejected"])
        text = capsys.readouterr().out
        assert "✗ rejected: Edit b.txt\n  +x\n\n> not so\n" in text
        assert "● Edit b.txt" not in text
        run(["export", "rejected"])
        assert "- `Edit b.txt` (rejected)" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "arguments", [["--json", "--tree"], ["zzzzzzzz"], ["abc"], ["--nothing"]]
    )
    def test_bad_input_gives_a_one_sentence_error(self, arguments: list[str], capsys: Captured):
        assert run(["show", *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1


class TestExport:
    def test_markdown_reads_well(self, capsys: Captured):
        assert run(["export", PARENT]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"# Change the world\n\n*session {PARENT} · ")
        assert "\n\n> Change the world\n\nI change it.\n\n- `Edit a.txt`\n\n" in text
        assert f"```diff\n{DIFF}\n```" in text
        assert "````\nhello\n```\nmoon\n````" in text
        assert "## Result\n\nIt says **moon** now." in text
        assert "---\n\n# Sub-task: Look at it." in text
        assert "# Sub-task: Look closer." in text

    def test_json_has_a_summary_and_all_facts(self, capsys: Captured):
        assert run(["export", "--format", "JSON", PARENT]) == 0
        sessions = json.loads(capsys.readouterr().out)["sessions"]
        assert [each["id"] for each in sessions] == [PARENT, CHILD, GRANDCHILD]
        assert (sessions[0]["cost"], sessions[0]["status"]) == (0.0125, "completed")
        assert len(sessions[0]["facts"]) == FACTS_OF_PARENT
        assert sessions[1]["facts"][0]["parent"] == PARENT

    def test_an_html_page_loads_nothing_and_escapes_its_text(self, capsys: Captured):
        assert run(["export", "--format", "html", PARENT]) == 0
        page = capsys.readouterr().out
        assert page.startswith("<!doctype html>")
        assert "default-src &#x27;none&#x27;" in page
        assert "<h1>Change the world</h1>" in page
        assert "<h2>Sub-task: Look at it." in page
        assert "It says **moon** now." in page
        assert "<script" not in page
        assert "src=" not in page

    def test_an_export_is_private_and_replaces_a_file_only_with_force(self, capsys: Captured):
        assert run(["export", PARENT, "-o", "out.md"]) == 0
        assert stat.S_IMODE(Path("out.md").stat().st_mode) == 0o600
        assert capsys.readouterr().out == ""
        Path("out.md").write_text("mine")
        Path("out.md").chmod(0o644)
        assert run(["export", PARENT, "-o", "out.md"]) == 2
        assert Path("out.md").read_text() == "mine"
        assert "--force" in capsys.readouterr().err
        assert run(["export", PARENT, "-o", "out.md", "--force"]) == 0
        assert Path("out.md").read_text().startswith("# Change the world")
        assert stat.S_IMODE(Path("out.md").stat().st_mode) == 0o600
        assert [path.name for path in Path.cwd().iterdir()] == ["out.md"]

    def test_only_a_regular_file_is_replaced(self, capsys: Captured):
        Path("victim").write_text("mine")
        Path("link").symlink_to("victim")
        Path("loose").symlink_to("nothing")
        Path("folder").mkdir()
        os.mkfifo("pipe")
        for name in ("link", "loose", "folder", "pipe"):
            assert run(["export", PARENT, "-o", name, "--force"]) == 2
            assert f"{name} is not a regular file" in capsys.readouterr().err
        assert Path("victim").read_text() == "mine"
        assert not Path("nothing").exists()

    def test_an_unwritable_file_gives_a_one_sentence_error(self, capsys: Captured):
        assert run(["export", PARENT, "-o", "no/such/folder/out.md"]) == 2
        assert "cannot be written" in capsys.readouterr().err

    def test_showing_a_session_does_not_change_it(self):
        before = list(store().read(PARENT))
        run(["export", PARENT])
        assert list(store().read(PARENT)) == before
