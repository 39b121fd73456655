"""`rookery trust`, and the question that comes before anything else in a folder."""

import io
import os
import sys
from pathlib import Path

import pytest

from rookery.engine.ports.actions import Action, Judgement
from rookery.engine.ports.workspace import Place
from rookery.errors import SettingsError
from rookery.permissions.approval import AllowRules
from rookery.permissions.cli import (
    STAYS_UNTRUSTED,
    applied_files,
    ask_trust,
    command,
    trust_question,
)
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from support.actions import never
from support.terminal_session import TerminalSession

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def here(home: Path) -> Path:
    return Path.cwd()


@pytest.fixture
def store(home: Path) -> TrustStore:
    return TrustStore(find_places(os.environ).trust_file)


def trust(*arguments: str) -> None:
    code = command.main(list(arguments), standalone_mode=False, help_option_names=["-h", "--help"])
    assert code == 0


def allow_always(here: Path, text: str) -> None:
    rules = AllowRules(
        find_places(os.environ).rules_file,
        here,
        place=Place,
        now=lambda: int(here.stat().st_mtime * 1000),
    )
    rules.add(Action(title="Run", perform=never, command=text, judgement=Judgement()))


def test_this_folder_is_trusted_and_forgotten(here: Path, store: TrustStore, capsys: Captured):
    trust()
    assert capsys.readouterr().out == (f"{here} is trusted. To undo: rookery trust --forget\n")
    assert store.trusts(here)
    trust(str(here))
    assert capsys.readouterr().out == f"{here} is already trusted.\n"
    trust("--forget")
    assert capsys.readouterr().out == f"{here} is no longer trusted.\n"
    assert not store.trusts(here)
    trust("--forget")
    assert capsys.readouterr().out == f"{here} was not trusted.\n"


def test_project_files_are_listed_before_trusting_and_not_read(here: Path, capsys: Captured):
    (here / ".rookery").mkdir()
    os.mkfifo(here / ".rookery" / "settings.toml")  # reading it would block forever
    (here / ".rookery" / "hooks").mkdir()
    (here / "AGENTS.md").symlink_to("nowhere")
    (here / "README.md").touch()
    trust()
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "It contains: .rookery/settings.toml (settings), .rookery/hooks (programs to "
        "start), AGENTS.md (instructions)."
    )
    assert second.startswith(f"{here} is trusted.")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["/"], "/ cannot be trusted as a whole"),
        (["nowhere"], "No such folder: nowhere."),
        (["--list", "--forget"], "Give only one of --list"),
    ],
    ids=str,
)
def test_an_untrustable_folder_is_refused_with_the_reason(
    arguments: list[str], why: str, store: TrustStore
):
    with pytest.raises(SettingsError, match=why):
        trust(*arguments)
    assert store.all() == []


def test_home_is_refused(
    here: Path, store: TrustStore, monkeypatch: pytest.MonkeyPatch, capsys: Captured
):
    monkeypatch.setenv("HOME", str(here))
    with pytest.raises(SettingsError, match="is your home folder"):
        trust()
    assert store.all() == []
    assert capsys.readouterr().out == ""


def test_folders_and_rules_are_listed(here: Path, store: TrustStore, capsys: Captured):
    trust("--list")
    assert capsys.readouterr().out == "No trusted folders and no rules.\n"
    gone = here / "gone"
    gone.mkdir()
    store.trust(gone)
    gone.rmdir()
    store.trust(here)
    allow_always(here, "make\n\x1b[8m test")
    trust("--list")
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith(f": {gone} (removed or replaced since: no longer trusted)")
    assert second.endswith(f": {here}")
    assert third.endswith(f": exactly this command in {here}, for 30 days: make␊␛[8m test")
    trust("--forget")
    _, kept = capsys.readouterr().out.splitlines()
    assert kept.startswith("Its rules (")
    assert kept.endswith("rookery trust --forget-rules")
    trust("--forget-rules")
    assert capsys.readouterr().out == "Rules deleted: 1.\n"
    trust("--forget-rules")
    assert capsys.readouterr().out == "There were no rules to delete.\n"


def test_a_damaged_file_is_reported(here: Path, store: TrustStore, home: Path, capsys: Captured):
    store.trust(here)
    (home / "config" / "trust.json").write_text("[")
    trust("--list")
    assert "is damaged, so it is ignored" in capsys.readouterr().out


def test_the_question_cannot_be_forged_by_the_name_of_a_folder(tmp_path: Path):
    odd = tmp_path / "x\nDo you trust this folder? [y/n] y\u202e\x1b[8m"
    assert trust_question(odd).splitlines() == [
        f"{tmp_path}/x␊Do you trust this folder? [y/n] y<U+202E>␛[8m",
        "Do you trust this folder? Until you do, nothing in it is run or changed,",
        "and its own settings are not applied. [y/n]",
    ]
    assert applied_files(odd) == []


ASKING = """
import os, sys
from pathlib import Path
from rookery.permissions.cli import ask_trust
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
print("answered", ask_trust(TrustStore(find_places(os.environ).trust_file), Path.cwd(), sys.stdout))
"""
ENVIRON = ("PATH", "HOME", "ROOKERY_HOME")


def at_a_terminal(here: Path) -> TerminalSession:
    environ = {name: os.environ[name] for name in ENVIRON} | {"LANG": "C.UTF-8"}
    return TerminalSession([sys.executable, "-c", ASKING], cwd=here, environ=environ)


ANSWERS = {
    **dict.fromkeys(("y\n", " YES \n", "perhaps\ny\n"), True),
    **dict.fromkeys(("n\n", "No\n", "\nn\n", "perhaps\nn\n", "yes please\nn\n", ""), False),
}


@pytest.mark.parametrize(("typed", "trusted"), ANSWERS.items(), ids=map(repr, ANSWERS))
def test_only_a_clear_yes_is_stored(
    here: Path,
    store: TrustStore,
    typed: str,
    trusted: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
):
    (here / "AGENTS.md").touch()
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert ask_trust(store, here, sys.stdout) is trusted
    reported = capsys.readouterr().out
    assert reported.startswith(f"{here}\nIt contains: AGENTS.md (instructions).\nDo you trust")
    assert (STAYS_UNTRUSTED in reported) == (not trusted)
    assert store.trusts(here) == trusted


def test_input_typed_before_the_question_does_not_answer_it(here: Path, store: TrustStore):
    with at_a_terminal(here) as terminal:
        terminal.type("y")  # the interpreter has not even started
        terminal.wait_for("[y/n] ")
        terminal.type("n")
        terminal.wait_for("answered False")
        assert terminal.exit_code() == 0
    assert not store.trusts(here)


def test_ignored_input_typed_before_the_question_is_shown(here: Path):
    with at_a_terminal(here) as terminal:
        terminal.press(b"fix the\x7f\x7f\x7fbug")
        terminal.wait_for("Ignored, because it was typed before the question: fix bug\n")
        terminal.wait_for("[y/n] ")
        terminal.type("n")
        assert terminal.exit_code() == 0


def test_in_the_home_folder_nothing_is_asked(
    here: Path, store: TrustStore, monkeypatch: pytest.MonkeyPatch, capsys: Captured
):
    monkeypatch.setenv("HOME", str(here))
    assert not ask_trust(store, here, sys.stdout)
    assert "is your home folder" in capsys.readouterr().out


def test_an_approval_that_cannot_be_stored_applies_to_this_run(
    here: Path, store: TrustStore, home: Path
):
    (home / "config").mkdir(parents=True)
    (home / "config" / "trust.json").write_text("[")
    (home / "config" / "trust.json").chmod(0o600)
    with at_a_terminal(here) as terminal:
        terminal.wait_for("is damaged, so it is ignored.")
        terminal.wait_for("[y/n] ")
        terminal.type("y")
        terminal.wait_for("The folder is trusted for this run only.")
        terminal.wait_for("answered True")
        assert terminal.exit_code() == 0
    assert not store.trusts(here)
