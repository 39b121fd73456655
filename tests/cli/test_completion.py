"""`rookery completion` and `rookery upgrade`."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from rookery.cli.doctor import upgrade_command
from rookery.cli.main import _SUBCOMMANDS, run
from rookery.providers.registry import NAMES
from support.stored_sessions import PARENT, keep_family

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def offered(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    def offer(line: str, shell: str = "bash") -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert run(["completion", shell, "--answer"]) == 0
        return [each.removeprefix("plain,") for each in capsys.readouterr().out.splitlines()]

    return offer


def test_commands_and_flags_are_completed(offered):
    assert set(offered("rookery ")) == set(_SUBCOMMANDS)
    assert offered("rookery se") == ["search", "serve", "sessions", "settings"]
    assert offered("rookery --output") == ["--output-format"]
    assert "--everywhere" in offered("rookery delete --")
    assert offered("rookery config un") == ["unset"]
    assert offered("rookery config set --pro") == ["--project"]
    assert offered("rookery --sandbox o") == ["on", "off"]
    assert offered("rookery review --fail-on ") == ["error", "warning", "note", "never"]


def test_sessions_of_this_folder_are_completed(offered):
    keep_family(Path.cwd())
    for line in (
        "show ",
        "export ",
        "fork ",
        "delete ",
        "rewind ",
        "--session-id ",
        "commit --session ",
    ):
        assert set(offered(f"rookery {line}")) == {"aaaaaaaa", "bbbbbbbb", "cccccccc"}
    assert offered("rookery show aa") == [PARENT[:8]]
    assert offered("rookery delete aaaaaaaa b") == ["bbbbbbbb"]


def test_modes_providers_settings_and_models_are_completed(
    offered, monkeypatch: pytest.MonkeyPatch
):
    assert offered("rookery --mode ar") == ["architect"]
    assert offered("rookery -M de") == ["debug"]
    assert set(offered("rookery --provider ")) == set(NAMES)
    assert offered("rookery config get ui.o") == ["ui.oneshot"]
    assert offered("rookery auth an") == ["anthropic"]
    assert offered("rookery models de") == ["describe", "deepseek"]
    assert offered("rookery list mo") == ["modes", "models"]
    assert offered("rookery -m claude") == []
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert "claude-opus-5-5" in offered("rookery -m claude")


def test_completion_prints_nothing_without_a_match(offered, home: Path):
    assert offered("rookery fix the ") == []
    assert offered("rookery show ") == []
    (home / "data").mkdir(parents=True)
    (home / "data" / "tasks").write_text("no folder")
    assert offered("rookery show ") == []


def test_zsh_and_fish_completions_include_descriptions(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    keep_family(Path.cwd())
    monkeypatch.setenv("COMP_WORDS", "rookery show aa")
    monkeypatch.setenv("COMP_CWORD", "2")
    run(["completion", "zsh", "--answer"])
    assert capsys.readouterr().out == "plain\naaaaaaaa\nChange the world\n"
    monkeypatch.setenv("COMP_CWORD", "aa")
    run(["completion", "fish", "--answer"])
    assert capsys.readouterr().out == "plain,aaaaaaaa\tChange the world\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_completion_script_is_valid_in_its_shell(shell: str, capsys: Captured, tmp_path: Path):
    assert run(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert f"completion {shell} --answer" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    subprocess.run([shell, "-n", str(script)], check=True)


def test_bash_completes_with_the_script(tmp_path: Path):
    keep_family(Path.cwd())
    command = Path(sys.executable).parent / "rookery"
    script = f"""
source <({command} completion bash)
COMP_WORDS=({command} show aa) COMP_CWORD=2
_rookery_completion {command}
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p rookery rook
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    first, *registered = done.stdout.splitlines()
    assert first == "aaaaaaaa"
    assert len(registered) == 2


LOADED = """
import sys
sys.argv[1:] = ["completion", "bash", "--answer"]
from rookery.__main__ import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {
    *("anyio", "asyncio", "httpx2", "textual", "yaml"),
    *("rookery.app.local_host", "rookery.engine.engine", "rookery.manager.manager"),
}


def test_completion_imports_neither_the_engine_nor_heavy_modules():
    keep_family(Path.cwd())
    environ = {**os.environ, "COMP_WORDS": "rookery show aa", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environ, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "rookery.cli.completion" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("arguments", [[], ["tcsh"], ["bash", "zsh"]])
def test_bad_completion_arguments_are_reported_in_one_line(arguments: list[str], capsys: Captured):
    assert run(["completion", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


class TestUpgrade:
    def test_upgrade_only_prints_the_upgrade_command(self, capsys: Captured):
        assert run(["upgrade"]) == 0
        version, way = capsys.readouterr().out.splitlines()
        assert version.startswith("rookery ")
        assert way.startswith("To upgrade: ")

    @pytest.mark.parametrize(
        ("prefix", "install"),
        [
            ("/home/ada/.local/share/pipx/venvs/rookery", "pipx install --force"),
            ("/home/ada/.local/share/uv/tools/rookery", "uv tool install --force"),
            ("/srv/venv", "/srv/venv/bin/python -m pip install --upgrade"),
        ],
    )
    def test_the_upgrade_command_matches_the_installation_method(
        self, prefix: str, install: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        clone = tmp_path / "my clone"
        (clone / ".git").mkdir(parents=True)
        at = Path(prefix), Path(prefix) / "bin" / "python"

        def way(**origin: object) -> str:
            kept = _Kept(json.dumps(origin))
            monkeypatch.setattr("rookery.cli.doctor._installed", lambda: kept)
            return upgrade_command(*at)

        pull = f"git -C '{clone}' pull && {install}"
        folder = {"url": clone.as_uri()}
        extras = "[all]" if install.endswith("--force") else ""
        assert way(**folder, dir_info={"editable": True}) == f"{pull} --editable '{clone}{extras}'"
        assert way(**folder, dir_info={}) == f"{pull} '{clone}{extras}'"
        repository = {"url": "https://example.org/r.git", "vcs_info": {"vcs": "git"}}
        assert way(**repository) == f"{install} git+https://example.org/r.git"
        for origin in ({}, {"url": "file:///gone.whl"}, {"dir_info": 1, "vcs_info": []}):
            assert way(**origin).startswith(f"{install} /path/to/clone-or-wheel  (")

    def test_the_upgrade_command_of_an_uninstalled_copy_uses_a_path(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("rookery.cli.doctor._installed", lambda: None)
        assert "install --upgrade /path/" in upgrade_command(Path("/v"), Path("/v/bin/python"))


class _Kept(Distribution):
    """A distribution of which only its origin is known."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def read_text(self, filename: str) -> str | None:
        return self._origin if filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise FileNotFoundError(path)
