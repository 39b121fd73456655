"""`models`, `settings`, `auth` and what every command has in common."""

import io
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from rookery import VERSION
from rookery.app.model_choice import choose_model
from rookery.cli.main import _SUBCOMMANDS, run
from rookery.core.settings import Settings
from rookery.core.settings_reference import ANY, all_settings
from rookery.providers.registry import DEFAULT_MODELS

Captured = pytest.CaptureFixture[str]
NO_ID = "00000000-0000-4000-8000-000000000000"


class TestModels:
    def test_the_default_model_is_marked(self, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        run(["models"])
        usual = DEFAULT_MODELS["anthropic"]
        assert self.marked(capsys) == [("anthropic", usual)]
        monkeypatch.setenv("ROOKERY_PROVIDER", "openai")
        monkeypatch.setenv("ROOKERY_MODEL", "gpt-of-tomorrow")
        run(["models"])
        assert self.marked(capsys) == [("openai", "gpt-of-tomorrow")]

    def marked(self, capsys: Captured) -> list[tuple[str, ...]]:
        lines = capsys.readouterr().out.splitlines()
        return [tuple(line.split()[:2]) for line in lines if line.endswith("  default")]

    def test_models_names_the_missing_key_of_the_chosen_provider(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
        monkeypatch.setenv("ROOKERY_PROVIDER", "openai")
        assert run(["models"]) == 0
        text = capsys.readouterr().out
        assert re.search(r"^anthropic +claude", text, re.M)
        assert not re.search(r"  default$", text, re.M)
        assert "note: No key for openai. Set OPENAI_API_KEY, or run: rookery auth" in text

    def test_models_without_a_key_says_how_to_get_one(self, capsys: Captured):
        assert run(["models"]) == 0
        text = capsys.readouterr().out
        # a model server may run on the machine that runs this test
        assert "rookery auth anthropic" in text or "To use one: " in text


class TestSettings:
    def test_every_setting_is_shown_with_its_source(
        self, home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        (home / "config").mkdir(parents=True)
        (home / "config" / "settings.toml").write_text('mode = "ask"\n')
        monkeypatch.setenv("ROOKERY_MAX_REQUESTS", "7")
        assert run(["settings"]) == 0
        text = capsys.readouterr().out
        rows = {line.split()[0]: line for line in text.split("\n\n")[0].splitlines()}
        written_down = {".".join(key) for key in all_settings() if ANY not in key}
        assert written_down <= set(rows)
        assert rows["mode"].split() == ["mode", '"ask"', f"{home}/config/settings.toml"]
        assert "ROOKERY_MAX_REQUESTS" in rows["max_requests"]
        assert rows["mistake_limit"].endswith("default")
        assert f"Your settings file is {home}/config/settings.toml.\n" in text

    def test_a_misspelled_variable_is_reported(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ROOKERY_MODLE", "x")
        assert run(["settings"]) == 0
        note = "note: ROOKERY_MODLE is not a setting; did you mean ROOKERY_MODEL?\n"
        assert note in capsys.readouterr().out


class TestAuth:
    def test_a_stored_key_is_private_and_never_shown(
        self, home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO("sk-very-secret\n"))
        assert run(["auth", "anthropic"]) == 0
        said = capsys.readouterr()
        file = home / "config" / "keys.toml"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "sk-very-secret" in file.read_text()
        assert "sk-very-secret" not in said.out + said.err
        choice = choose_model(Settings(), os.environ, file, None)
        assert (choice.provider, choice.key and choice.key.reveal()) == (
            "anthropic",
            "sk-very-secret",
        )
        assert "sk-very-secret" not in repr(choice)


def test_a_local_server_needs_no_key(home: Path):
    settings = Settings(provider="openai", model="m", base_url="http://localhost:8080/v1")
    assert choose_model(settings, {}, home / "config" / "keys.toml", None).key is None


def test_the_long_help_lists_every_command_and_exit_code(capsys: Captured):
    assert run(["--help-all"]) == 0
    text = capsys.readouterr().out
    for word in (*_SUBCOMMANDS, "124 --timeout", "130 interrupted"):
        assert word in text


@pytest.mark.parametrize("flag", ["--help", "-h", "help"])
def test_the_short_help_fits_a_screen_and_names_every_command(flag: str, capsys: Captured):
    assert run([flag]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") <= 45
    assert max(map(len, text.splitlines())) <= 80
    for word in (*_SUBCOMMANDS, "--help-all"):
        assert re.search(rf"(?<![\w-]){re.escape(word)}\b", text), word


@pytest.mark.parametrize("command", sorted(_SUBCOMMANDS))
def test_every_command_has_its_own_help(command: str, capsys: Captured):
    for arguments in ([command, "--help"], [command, "-h"], ["help", command]):
        assert run(arguments) == 0
        assert f"Usage: rookery {command}" in capsys.readouterr().out


class TestNearMisses:
    @pytest.mark.parametrize(
        ("word", "meant"),
        [
            ("lst", "list"),
            ("lists", "list"),
            ("List", "list"),
            ("model", "models"),
            ("setings", "settings"),
            ("hlep", "help"),
            ("undo", "rewind"),
            ("whoami", "auth status"),
        ],
    )
    def test_a_misspelled_command_is_not_a_prompt(self, word: str, meant: str, capsys: Captured):
        for arguments in ([word], ["-m", "x", word], ["-p", word]):
            assert run(arguments) == 2
            assert capsys.readouterr().err == (
                f"Error: No such command: {word}. Did you mean {meant}? To use it as "
                f"a prompt: rookery -- {word}\n"
            )

    def test_a_command_after_an_option_is_not_a_prompt(self, capsys: Captured):
        assert run(["-p", "list"]) == 2
        assert capsys.readouterr().err == (
            "Error: list is a command. To run it: rookery list. To use it as a prompt: "
            "rookery -- list\n"
        )

    @pytest.mark.parametrize(
        "arguments",
        [
            ["-p", "--", "lst"],
            ["-p", "lst", "the", "files"],
            ["-p", "lst the files"],
            ["-p", "explain"],
            ["help", "me"],
            ["-c", "-p", "lst"],
            ["--session-id", NO_ID, "-p", "lst"],
            ["-p", "lst", "--prompt-file", "a.txt"],
        ],
        ids=" ".join,
    )
    def test_other_words_are_a_prompt(
        self, arguments: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("ROOKERY_PROVIDER", "nobody")
        assert run(arguments) == 2
        assert "No such command" not in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed(flag: str, capsys: Captured):
    assert run([flag]) == 0
    assert capsys.readouterr().out == f"rookery {VERSION}\n"
