"""`rookery config`: settings read, changed and explained."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.settings import Settings
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places

Captured = pytest.CaptureFixture[str]
MINE = '# mine\nmode = "ask"  # quietly\nmax_requests = 50\n'


@pytest.fixture
def file(home: Path) -> Path:
    file = home / "config" / "settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(MINE)
    return file


@pytest.fixture
def project(home: Path) -> Path:
    """The file of a project that is trusted."""
    TrustStore(find_places(os.environ).trust_file).trust(Path.cwd())
    file = Path.cwd() / ".rookery" / "settings.toml"
    file.parent.mkdir()
    return file


def said(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert run(["config", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


class TestGet:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("mode", "ask\n"),
            ("max_requests", "50\n"),
            ("provider", ""),
            ("ui.oneshot", "false\n"),
            ("sandbox.leave", "git\ngh\nglab\nssh\nscp\ndocker\npodman\n"),
        ],
    )
    def test_a_value_is_printed_for_a_shell(
        self, file: Path, name: str, value: str, capsys: Captured
    ):
        assert said(capsys, "get", name) == value

    def test_json_output_includes_the_origin(self, file: Path, capsys: Captured):
        assert json.loads(said(capsys, "get", "mode", "--format", "json")) == {
            "name": "mode",
            "value": "ask",
            "origin": str(file),
        }

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("moed", "No such setting: `moed`; did you mean `mode`? See rookery config list."),
            ("zzz", "No such setting: `zzz`. See rookery config list."),
            ("ui", "`ui` is a section"),
            ("", "No such setting"),
            ("models.<id>.window", "No such setting"),
        ],
    )
    def test_an_unknown_setting_gives_a_one_sentence_error(
        self, name: str, sentence: str, capsys: Captured
    ):
        error = said(capsys, "get", name, code=2)
        assert sentence in error
        assert error.count("\n") == 1


class TestSet:
    def test_the_rest_of_the_file_stays_as_it_was(self, file: Path, capsys: Captured):
        assert said(capsys, "set", "mode", "code") == f'mode = "code" in {file}\n'
        assert file.read_text() == MINE.replace('"ask"', '"code"')
        said(capsys, "set", "commands.allow", "npm test, make")
        assert file.read_text().endswith('\n[commands]\nallow = ["npm test", "make"]\n')
        said(capsys, "set", "models.gpt-4.1.window", "9000")
        assert '[models."gpt-4.1"]\nwindow = 9000\n' in file.read_text()
        assert said(capsys, "get", "models.gpt-4.1.window") == "9000\n"

    @pytest.mark.parametrize(
        ("values", "kept"),
        [
            (['["npm test", "a,b"]'], '["npm test", "a,b"]'),
            (["['make']"], '["make"]'),
            (["npm test", "a,b", "[x]"], '["npm test", "a,b", "[x]"]'),
            (["make"], '["make"]'),
            (["[]"], "[]"),
            ([""], "[]"),
        ],
    )
    def test_a_list_is_several_values_or_one(
        self, file: Path, values: list[str], kept: str, capsys: Captured
    ):
        said(capsys, "set", "commands.allow", *values)
        assert file.read_text().endswith(f"\n[commands]\nallow = {kept}\n")

    @pytest.mark.parametrize(
        ("name", "values", "sentence"),
        [
            ("commands.allow", ['["make"'], '["make" is not a list. Write ["one", "two"]'),
            ("commands.allow", ["[1, 2]"], "commands.allow must be"),
            ("commands.allow", ['["x"]\nmode = "code"'], "is not a list"),
            ("mode", ["code", "ask"], "mode takes one value, not 2"),
        ],
    )
    def test_a_bad_list_changes_nothing(
        self, file: Path, name: str, values: list[str], sentence: str, capsys: Captured
    ):
        assert sentence in said(capsys, "set", name, *values, code=2)
        assert file.read_text() == MINE

    def test_a_value_that_would_make_the_file_unreadable_is_refused(
        self, file: Path, capsys: Captured
    ):
        reported = said(capsys, "set", "context.instructions", "x" * 1500, code=2)
        assert "shorten the value" in reported
        assert file.read_text() == MINE

    def test_a_missing_file_is_created(self, home: Path, capsys: Captured):
        said(capsys, "set", "ui.colour", "never")
        file = home / "config" / "settings.toml"
        assert file.read_text() == '[ui]\ncolour = "never"\n'
        assert file.stat().st_mode & 0o777 == 0o600

    def test_an_overriding_variable_is_reported(
        self, file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ROOKERY_MODE", "debug")
        assert 'note: ROOKERY_MODE overrides it here: "debug"\n' in said(
            capsys, "set", "mode", "code"
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [("max_requests", "many"), ("ui.colour", "red"), ("nothing", "1"), ("base_url", "x")],
    )
    def test_an_invalid_value_changes_nothing(
        self, file: Path, name: str, value: str, capsys: Captured
    ):
        assert said(capsys, "set", name, value, code=2).count("\n") == 1
        assert file.read_text() == MINE

    def test_one_bad_value_can_be_fixed_while_others_remain(self, file: Path, capsys: Captured):
        file.write_text('mode = 3\nmax_requests = "x"\n')
        assert "note: " in said(capsys, "set", "mode", "ask")
        assert file.read_text() == 'mode = "ask"\nmax_requests = "x"\n'
        assert "note: " not in said(capsys, "set", "max_requests", "3")

    def test_a_project_can_only_tighten_settings(self, file: Path, project: Path, capsys: Captured):
        said(capsys, "set", "max_requests", "5", "--project")
        assert project.read_text() == "max_requests = 5\n"
        assert project.stat().st_mode & 0o777 == 0o644
        error = said(capsys, "set", "max_requests", "51", "--project", code=2)
        assert "A project can only lower it (0 means no limit), and max_requests is 50" in error
        assert "mode cannot be set by a project" in said(
            capsys, "set", "mode", "code", "--project", code=2
        )
        assert project.read_text() == "max_requests = 5\n"

    def test_unset_removes_a_line_or_reports_that_there_is_none(self, file: Path, capsys: Captured):
        assert said(capsys, "unset", "mode") == f"mode is no longer set in {file}.\n"
        assert file.read_text() == "# mine\nmax_requests = 50\n"
        assert said(capsys, "unset", "mode") == f"mode is not set in {file}.\n"


class TestExplain:
    def rows(self, capsys: Captured, name: str) -> dict[str, dict[str, object]]:
        reported = json.loads(said(capsys, "explain", name, "--format", "json"))
        return {row["layer"]: row for row in reported["layers"]} | {"": reported}

    def test_every_layer_is_listed_and_the_effective_one_is_marked(
        self, file: Path, project: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        project.write_text("max_requests = 5\n")
        text = said(capsys, "explain", "max_requests")
        assert "Requests to the model after which you are asked" in text
        usual = str(Settings().max_requests)
        assert [line.split()[-1] for line in text.splitlines()[3:]] == ["set", "5", "50", usual]
        assert f"→ {project}" in text
        monkeypatch.setenv("ROOKERY_MAX_REQUESTS", "9")
        assert "→ ROOKERY_MAX_REQUESTS" in said(capsys, "explain", "max_requests")

    @pytest.mark.parametrize(
        ("text", "name", "note"),
        [
            ("max_requests = 500\n", "max_requests", "a project can only lower it"),
            ('mode = "code"\n', "mode", "mode cannot be set by a project"),
            ('approval = "auto"\n', "approval", "a project can only set it to"),
        ],
    )
    def test_the_reason_for_ignoring_a_project_setting_is_shown(
        self, file: Path, project: Path, text: str, name: str, note: str, capsys: Captured
    ):
        project.write_text(text)
        rows = self.rows(capsys, name)
        assert note in str(rows[str(project)]["note"])
        assert rows[""]["origin"] != str(project)

    def test_settings_of_an_untrusted_folder_are_ignored(self, file: Path, capsys: Captured):
        Path(".rookery").mkdir()
        Path(".rookery/settings.toml").write_text("max_requests = 5\n")
        rows = self.rows(capsys, "max_requests")
        reported = rows[str(Path.cwd() / ".rookery" / "settings.toml")]
        assert (reported["value"], rows[""]["value"]) == (5, 50)
        assert "you do not trust this folder" in str(reported["note"])


class TestEdit:
    @pytest.fixture
    def editor(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A program that writes what is in a file beside it into the file it is given."""
        program = tmp_path / "my editor"
        program.write_text('#!/bin/sh\n[ "$1" = -x ] && cp "$0.text" "$2"\n')
        program.chmod(0o755)
        monkeypatch.setenv("VISUAL", f"'{program}' -x")
        return tmp_path / "my editor.text"

    def test_a_valid_edit_replaces_the_file(self, file: Path, editor: Path, capsys: Captured):
        editor.write_text('mode = "debug"\n')
        assert said(capsys, "edit") == f"{file} was changed.\n"
        assert file.read_text() == 'mode = "debug"\n'
        assert said(capsys, "edit") == f"{file} was not changed.\n"

    @pytest.mark.parametrize("text", ["mode = \n", "nothing = 1\n", 'max_requests = "x"\n'])
    def test_an_invalid_edit_does_not_replace_the_file(
        self, file: Path, editor: Path, text: str, capsys: Captured
    ):
        editor.write_text(text)
        error = said(capsys, "edit", code=2)
        assert f"{file} was not changed." in error
        assert str(file) in error.splitlines()[0]
        assert file.read_text() == MINE

    def test_a_project_file_may_hold_only_settings_a_project_can_set(
        self, file: Path, project: Path, editor: Path, capsys: Captured
    ):
        editor.write_text('mode = "debug"\n')
        assert "cannot be set by a project" in said(capsys, "edit", "--project", code=2)
        assert not project.exists()
        editor.write_text("max_requests = 1\n")
        said(capsys, "edit", "--project")
        assert project.read_text() == "max_requests = 1\n"

    @pytest.mark.parametrize("flags", [[], ["--project"]], ids=["own", "project"])
    def test_a_concurrent_change_and_the_edited_text_are_both_kept(
        self,
        file: Path,
        project: Path,
        flags: list[str],
        capsys: Captured,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        target = project if flags else file
        program = tmp_path / "slow"
        program.write_text(
            f"#!/bin/sh\necho max_requests = 9 > '{target}'\necho max_requests = 7 > \"$1\"\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(program))
        error = said(capsys, "edit", *flags, code=2)
        assert target.read_text() == "max_requests = 9\n"
        [kept] = file.parent.glob("settings-edited-*.toml")
        assert kept.read_text() == "max_requests = 7\n"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert error.count("\n") == 1
        assert f"your version was saved to {kept} instead." in error

    @pytest.mark.parametrize("editor", ["false", "/no/such/editor", "'unclosed"])
    def test_an_editor_that_fails_changes_nothing(
        self, file: Path, editor: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", editor)
        assert said(capsys, "edit", code=2).count("\n") == 1
        assert file.read_text() == MINE


def test_settings_set_at_the_same_time_are_all_kept(file: Path):
    wanted = {"max_requests": 7, "max_tokens": 8, "mistake_limit": 4}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "rookery", "config", "set", name, str(value)],
            stdout=subprocess.DEVNULL,
        )
        for name, value in wanted.items()
    ]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    assert tomllib.loads(file.read_text()) == {"mode": "ask", **wanted}


def test_origins_are_aligned(file: Path, capsys: Captured):
    lines = said(capsys).splitlines()
    places = {line.rindex("default") for line in lines if line.endswith("  default")}
    assert len(places) <= 2  # one is too long
    assert any('"unspecified"  default' in line for line in lines)


def test_settings_are_listed_by_default(file: Path, capsys: Captured):
    assert said(capsys) == said(capsys, "list")
    listed = json.loads(said(capsys, "list", "--format", "json"))
    assert {"name": "mode", "value": '"ask"', "origin": str(file)} in listed["settings"]
    assert run(["settings"]) == 0
    assert capsys.readouterr().out == said(capsys, "list")


def test_an_unknown_mode_is_not_stored(file: Path, capsys: Captured):
    assert "No such mode: 'bogus'. Available: code," in said(capsys, "set", "mode", "bogus", code=2)
    assert file.read_text() == MINE
    said(capsys, "set", "mode", "architect")
    assert 'mode = "architect"' in file.read_text()
