"""`rookery auth`: keys in a keyring or in a file, listed and removed.

The keyring is reached through the package `keyring`, in processes of their own, with a backend of
the tests' at its other end.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.facts import TaskOpened
from support.file_keyring import FILE, MOOD
from support.stored_sessions import keep
from support.text_process import start_text

Captured = pytest.CaptureFixture[str]
SECRET = "sk-very-secret"
PATIENCE = 60


class Machine:
    """The command on a machine that has a keyring."""

    def __init__(self, home: Path, tmp_path: Path) -> None:
        self.keyring = tmp_path / "keyring.json"
        self.file = home / "config" / "keys.toml"
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "ROOKERY_HOME")},
            "LANG": "C.UTF-8",
            FILE: str(self.keyring),
        }

    def run(
        self, *arguments: str, given: str = "", backend: str = "FileKeyring", **environ: str
    ) -> "subprocess.CompletedProcess[str]":
        with start_text(
            [backend, *arguments],
            self.environ | environ,
            Path.cwd(),
            program=Path(__file__).parents[2] / "support/keyring_command.py",
            given=given,
        ) as process:
            out, err = process.communicate(timeout=PATIENCE)
            done = subprocess.CompletedProcess(arguments, process.wait(), out, err)
        assert "Traceback" not in done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done

    def kept(self) -> dict[str, str]:
        kept: dict[str, str] = json.loads(self.keyring.read_text())
        return kept

    def key_found(self, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Look up a key like a run: its source, and whether the keyring was loaded."""
        done = self.run("find-key", str(self.file), **environ)
        assert (done.returncode, done.stderr) == (0, "")
        return done


@pytest.fixture
def machine(home: Path, tmp_path: Path) -> Machine:
    return Machine(home, tmp_path)


class TestWithAKeyring:
    def test_a_key_is_stored_found_and_removed_in_the_keyring(self, machine: Machine):
        done = machine.run("auth", "anthropic", given=f"{SECRET}\n")
        assert done.stdout == (
            "The key for anthropic is stored in the system keyring (a file of the test's).\n"
            'Use it with: rookery --provider anthropic "your task"\n'
        )
        assert machine.kept() == {"rookery/anthropic": SECRET}
        assert not machine.file.exists()
        assert machine.key_found().stdout == f"the system's keyring {len(SECRET)} True\n"
        status = machine.run("auth", "status")
        assert (status.returncode, status.stdout) == (0, "anthropic\tthe system's keyring\n")
        assert machine.run("auth", "logout", "anthropic").returncode == 0
        assert machine.kept() == {}
        assert machine.run("auth", "status").returncode == 1

    def test_a_bundle_is_made_only_if_the_stored_key_can_be_searched_for(self, machine: Machine):
        machine.run("auth", "anthropic", given=f"{SECRET}\n")
        keep("shared", TaskOpened(text=f"use {SECRET}"))
        asked = ("export", "shared", "--format", "bundle", "-o", "out.zip")
        refused = machine.run(*asked, **{MOOD: "locked"})
        assert (refused.returncode, Path("out.zip").exists()) == (2, False)
        assert "Unlock it" in refused.stderr
        assert "Replaced: key 1." in machine.run(*asked).stderr

    def test_the_environment_comes_first_and_the_keyring_is_not_read(self, machine: Machine):
        machine.run("auth", "anthropic", given=f"{SECRET}\n")
        found = machine.key_found(ANTHROPIC_API_KEY="e").stdout
        assert found == "ANTHROPIC_API_KEY 1 False\n"

    def test_the_keyring_is_not_imported_without_a_stored_key(self, machine: Machine):
        machine.keyring.write_text(json.dumps({"rookery/anthropic": SECRET}))
        assert machine.key_found().stdout == "None None False\n"

    def test_a_key_is_in_one_place_only(self, machine: Machine):
        machine.run("auth", "anthropic", "--file", given="old-key\n")
        assert "old-key" in machine.file.read_text()
        machine.run("auth", "anthropic", given=f"{SECRET}\n")
        assert machine.file.read_text() == ""
        machine.run("auth", "anthropic", "--file", given=f"{SECRET}\n")
        assert machine.kept() == {}
        assert machine.key_found().stdout == f"{machine.file} {len(SECRET)} False\n"

    @pytest.mark.parametrize(
        ("mood", "why"),
        [("locked", "it is locked"), ("broken", "RuntimeError"), ("stuck", "within 3 s")],
    )
    def test_an_unusable_keyring_gives_a_prompt_one_sentence_error(
        self, machine: Machine, mood: str, why: str
    ):
        machine.run("auth", "anthropic", given=f"{SECRET}\n")
        began = time.monotonic()
        said = machine.key_found(**{MOOD: mood}).stdout
        assert time.monotonic() - began < PATIENCE / 2
        assert said.startswith("The key for anthropic is in the system keyring, which cannot")
        assert why in said
        assert said.count("\n") == 1
        assert SECRET not in said

    @pytest.mark.parametrize("mood", ["locked", "broken"])
    def test_a_key_is_stored_in_the_file_if_the_keyring_refuses_it(
        self, machine: Machine, mood: str
    ):
        done = machine.run("auth", "anthropic", given=f"{SECRET}\n", **{MOOD: mood})
        assert (done.returncode, "(Not in a keyring: " in done.stdout) == (0, True)
        assert SECRET in machine.file.read_text()

    def test_a_plain_text_keyring_is_not_used(self, machine: Machine):
        machine.run("auth", "anthropic", given=f"{SECRET}\n", backend="PlainKeyring")
        assert not machine.keyring.exists()
        assert SECRET in machine.file.read_text()

    def test_a_key_that_cannot_be_removed_is_reported(self, machine: Machine):
        machine.run("auth", "anthropic", given=f"{SECRET}\n")
        refused = machine.run("auth", "logout", "anthropic", **{MOOD: "locked"})
        assert refused.returncode == 2
        assert "cannot be removed: it is locked" in refused.stderr
        assert machine.run("auth", "status").returncode == 0

    def test_doctor_and_status_name_the_keyring(self, machine: Machine):
        machine.run("auth", "anthropic", given=f"{SECRET}\n")
        assert "Keyring: a file of the test's" in machine.run("auth", "status", "-v").stdout
        findings = json.loads(machine.run("doctor", "--json").stdout)["findings"]
        by_name = {each["name"]: each for each in findings}
        assert by_name["keyring"]["text"] == "a file of the test's; it has keys for anthropic."
        assert by_name["keys"]["text"] == "anthropic (the system's keyring)."
        locked = machine.run("doctor", "--json", **{MOOD: "locked"})
        assert locked.returncode == 1
        assert "which cannot be used now: it is locked." in locked.stdout
        machine.keyring.write_text("{}")
        gone = machine.run("doctor", "--json").stdout
        assert "The key for anthropic was removed from the keyring." in gone


class TestWithoutOne:
    def test_status_lists_the_keys_and_sets_the_exit_code(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        assert run(["auth", "status"]) == 1
        assert "No key." in capsys.readouterr().out
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        assert run(["auth", "status"]) == 0
        assert capsys.readouterr().out.splitlines()[0] == "openai\tOPENAI_API_KEY"
        assert run(["auth", "status", "anthropic"]) == 1
        assert capsys.readouterr().out == "anthropic\tno key (ANTHROPIC_API_KEY)\n"
        assert run(["auth", "status", "openai-native", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "authenticated": True,
            "keys": {"responses": "OPENAI_API_KEY"},
        }

    def test_a_logout_without_a_name_lists_the_providers_with_a_key(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ):
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        assert run(["auth", "logout"]) == 2
        assert "With a key: openai, responses." in capsys.readouterr().err

    @pytest.mark.parametrize("word", ["list", "ls"])
    def test_other_words_for_status(
        self, word: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ):
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        assert run(["auth", word]) == 0
        assert "openai\tOPENAI_API_KEY" in capsys.readouterr().out

    def test_logging_out_without_a_key_is_not_an_error(self, capsys: Captured):
        assert run(["auth", "logout", "anthropic"]) == 0
        assert capsys.readouterr().out == "No key for anthropic is stored.\n"

    @pytest.mark.parametrize(
        "words", [[], ["login"], ["logout"], ["nobody"], ["status", "nobody"], ["a", "b"]]
    )
    def test_bad_input_gives_a_one_sentence_error(self, words: list[str], capsys: Captured):
        assert run(["auth", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
