"""`rookery doctor` finds what is wrong, says what to do, and leaves everything as it was."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from rookery import VERSION
from rookery.app import checkup
from rookery.cli import doctor
from rookery.core.limits import MIB
from rookery.core.refusals import Finding, Health
from rookery.core.settings import Settings
from rookery.governance.cli.intents_validate import check_governed
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
from support.journal_writer import sample_facts, write_all
from support.terminal_session import TerminalSession
from support.tiny_model import tiny_model

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def here(home: Path) -> Path:
    return Path.cwd()


def examined(here: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in doctor.all_checks(here, os.environ)}


def stored(here: Path) -> dict[str, Finding]:
    """The checks of folders, settings and sessions, which start no program."""
    found = checkup.check_up(find_places(os.environ), here, os.environ)
    return {finding.name: finding for finding in found}


def governed(here: Path) -> dict[str, Finding]:
    found = check_governed(here, find_places(os.environ), Settings())
    return {finding.name: finding for finding in found}


def run(*arguments: str) -> int:
    code = doctor.command.main(
        list(arguments), standalone_mode=False, help_option_names=["-h", "--help"]
    )
    assert isinstance(code, int)
    return code


def keep_session(task_id: str) -> Path:
    store = TaskStore(find_places(os.environ))
    journal = store.create(task_id)
    write_all(journal, sample_facts())
    journal.close()
    return store.folder(task_id)


def everything_in(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *sorted(folder.rglob("*")))
    }


def test_a_new_installation_is_healthy(here: Path, capsys: Captured):
    assert run() == 0
    text = capsys.readouterr().out
    assert re.search(rf"^✔ versions  +rookery {VERSION} on Python 3\.", text, re.MULTILINE)
    assert re.search(rf"^! this folder  +{here} is not trusted", text, re.MULTILINE)
    assert re.search("^[✔!] sandbox  +", text, re.MULTILINE)
    assert re.search("^[✔!] checkpoints  +", text, re.MULTILINE)
    assert "to do: rookery trust\n" in text
    assert "! keys " in text
    assert "✗" not in text


def test_doctor_prints_json(here: Path, capsys: Captured):
    assert run("--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    assert {
        "name": "this folder",
        "health": "warn",
        "text": f"{here} is not trusted: it is read-only, and its own settings do not apply.",
        "todo": "rookery trust",
    } in said["findings"]


def test_a_failed_check_sets_the_exit_code(home: Path, capsys: Captured):
    (home / "config").mkdir(parents=True, mode=0o700)
    (home / "config" / "settings.toml").write_text("approval = 'nonsense'")
    assert run() == 1
    assert "✗ settings " in capsys.readouterr().out
    assert run("--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_doctor_changes_and_creates_no_files(
    here: Path, home: Path, tmp_path: Path, capsys: Captured
):
    before = everything_in(tmp_path)
    run()
    assert everything_in(tmp_path) == before
    TrustStore(home / "config" / "trust.json").trust(here)
    keep_session("s1")
    (here / "AGENTS.md").write_text("x")
    before = everything_in(tmp_path)
    run()
    assert everything_in(tmp_path) == before


def test_doctor_starts_no_program_from_the_folder(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    witness = tmp_path / "witness"
    (here / "bin").mkdir()
    (tmp_path / "link").symlink_to(here / "bin")
    for program in (here / "git", here / "rg", here / "bin" / "git", here / "bin" / "rg"):
        program.write_text(f"#!/bin/sh\ntouch {witness}\n")
        program.chmod(0o755)
    places = (".", "", "bin", str(here), str(here / "bin"), str(tmp_path / "link"))
    monkeypatch.setenv("PATH", os.pathsep.join((*places, os.environ["PATH"])))
    assert examined(here)["git"].health is Health.OK
    assert not witness.exists()


def program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_program_links_into_or_out_of_the_folder_are_not_followed(here: Path, tmp_path: Path):
    links = [tmp_path / "bin" / "git", here / "bin" / "git"]
    for link, target in zip(links, (here / "evil", tmp_path / "tool"), strict=True):
        link.parent.mkdir()
        link.symlink_to(program(target))
        assert doctor.find_program("git", here, {"PATH": str(link.parent)}) is None


def test_relative_path_entries_are_ignored(here: Path, tmp_path: Path):
    program(here / "bin" / "git")
    for place in ("bin", ".", "", "./bin"):
        assert doctor.find_program("git", tmp_path / "elsewhere", {"PATH": place}) is None


def test_a_missing_or_broken_program_is_reported(here: Path, tmp_path: Path):
    environ = {"PATH": str(tmp_path)}
    assert doctor.check_program("git", here, environ, missing="Pity.") == Finding(
        "git", Health.WARN, "It is not installed. Pity.", "Install git."
    )
    (tmp_path / "git").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "git").chmod(0o755)
    broken = doctor.check_program("git", here, environ, missing="Pity.")
    assert broken.health is Health.WARN
    assert "does not run" in broken.text


def test_the_settings_of_a_trusted_folder_are_checked(here: Path, home: Path):
    (here / ".rookery").mkdir()
    (here / ".rookery" / "settings.toml").write_text("base_url = 'http://evil.example'")
    assert stored(here)["settings"].health is Health.OK
    TrustStore(home / "config" / "trust.json").trust(here)
    found = stored(here)
    assert found["this folder"] == Finding("this folder", Health.OK, f"{here} is trusted.")
    assert found["settings"].health is Health.WARN
    assert "base_url cannot be set by a project" in found["settings"].text


def test_the_settings_of_an_untrusted_folder_are_not_read(here: Path):
    (here / ".rookery").mkdir()
    os.mkfifo(here / ".rookery" / "settings.toml")
    assert stored(here)["settings"].health is Health.OK


def test_home_can_never_be_trusted(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(here))
    assert "is your home folder" in stored(here)["this folder"].text


def test_settings_that_other_users_can_change_are_reported(here: Path, home: Path):
    (home / "config").mkdir(parents=True, mode=0o700)
    file = home / "config" / "settings.toml"
    file.write_text("")
    file.chmod(0o666)
    assert stored(here)["settings"] == Finding(
        "settings", Health.WARN, f"Other users can change {file}.", f"chmod 600 {file}"
    )
    file.chmod(0o644)
    assert stored(here)["settings"].text == f"{file} is in order."


def test_keys_are_named_by_their_source_and_never_shown(
    here: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    (home / "config").mkdir(parents=True, mode=0o700)
    file = home / "config" / "keys.toml"
    file.write_text('openai = "sk-hidden"\n')
    file.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    text = f"anthropic (ANTHROPIC_API_KEY), openai ({file})."
    assert doctor.check_keys(file, os.environ) == Finding("keys", Health.OK, text)
    file.chmod(0o644)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert doctor.check_keys(file, os.environ) == Finding(
        "keys", Health.BAD, f"Other users can read {file}; run: chmod 600 {file}"
    )


def test_folders_are_private_and_writable(here: Path, home: Path):
    data = home / "data"
    data.mkdir(parents=True, mode=0o700)
    assert stored(here)["data folder"] == Finding(
        "data folder", Health.OK, f"{data} is writable and only yours."
    )
    data.chmod(0o755)
    assert stored(here)["data folder"] == Finding(
        "data folder", Health.WARN, f"Other users can read {data}.", f"chmod 700 {data}"
    )
    data.chmod(0o500)
    found = stored(here)["data folder"]
    data.chmod(0o700)
    assert found.health is Health.BAD
    assert found.text == f"{data} is not writable."
    shutil.rmtree(data)
    data.write_text("")
    assert stored(here)["data folder"].text == f"{data} is not a folder."


@pytest.mark.parametrize(
    ("scarce", "full", "health"),
    [(0, 0, Health.OK), (1 << 60, 0, Health.WARN), (1 << 60, 1 << 60, Health.BAD)],
)
def test_low_disk_space_is_reported(
    scarce: int, full: int, health: Health, here: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkup, "SCARCE", scarce)
    monkeypatch.setattr(checkup, "FULL", full)
    found = checkup.check_space(here / "not" / "yet")
    assert found.health is health
    free = int(found.text.split()[0].replace(",", ""))
    assert abs(free - shutil.disk_usage(here).free // MIB) < 1024


def test_damaged_permission_lists_are_reported(here: Path, home: Path):
    TrustStore(home / "config" / "trust.json").trust(here)
    (home / "config" / "allowed.json").write_text("[")
    (home / "config" / "allowed.json").chmod(0o600)
    found = stored(here)["permissions"]
    assert found.health is Health.BAD
    assert "allowed.json is damaged" in found.text


def test_ignore_files_are_named(here: Path):
    assert stored(here)["ignore files"].text == "None; the agent may read the whole folder."
    (here / ".rooignore").write_text("secret\n")
    assert stored(here)["ignore files"] == Finding("ignore files", Health.OK, ".rooignore.")
    (here / ".rooignore").chmod(0)
    assert stored(here)["ignore files"].health is Health.BAD


def test_sessions_are_counted_and_the_damaged_ones_named(here: Path, home: Path):
    assert stored(here)["sessions"].text == "0 stored, none damaged."
    keep_session("good")
    assert stored(here)["sessions"] == Finding("sessions", Health.OK, "1 stored, none damaged.")
    torn = keep_session("torn") / "journal.jsonl"
    torn.write_bytes(torn.read_bytes()[:-10])
    keep_session("open").chmod(0o755)
    (home / "data" / "tasks" / "never-begun").mkdir(mode=0o700)
    found = stored(here)["sessions"]
    assert found.health is Health.WARN
    assert found.text.startswith("3 stored, 2 damaged. ")
    assert "torn: Line " in found.text
    assert "open: open can be reached by other users." in found.text
    assert found.todo


@pytest.mark.parametrize("content", [b"x\n", b"{}\n{}\n"])
def test_a_session_damaged_from_its_first_line_does_not_stop_the_doctor(content: bytes, here: Path):
    (keep_session("bad") / "journal.jsonl").write_bytes(content)
    assert stored(here)["sessions"].health is Health.WARN


def test_doctor_checks_only_the_newest_sessions(here: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(3):
        keep_session(f"s{number}")
    monkeypatch.setattr(checkup, "MOST_SESSIONS", 2)
    assert stored(here)["sessions"].text == "3 stored, the newest 2 checked, none damaged."


@pytest.mark.parametrize(
    ("environ", "seen"),
    [
        ({"LANG": "C.UTF-8", "TERM": "xterm"}, "UTF-8, 16 colours, 100 columns of 40 lines."),
        (
            {"LANG": "C.UTF-8", "TERM": "xterm-256color"},
            "UTF-8, 256 colours, 100 columns of 40 lines.",
        ),
        ({"LANG": "C.UTF-8", "TERM": "xterm", "NO_COLOR": "1"}, "UTF-8, no colours, 100 columns"),
        ({"PYTHONIOENCODING": "ascii"}, "The encoding is ascii"),
    ],
)
def test_the_terminal_is_checked(environ: dict[str, str], seen: str, here: Path):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "ROOKERY_HOME")}
    script = (
        "import os; from rookery.cli.doctor import check_terminal; "
        "print(check_terminal(os.environ).text)"
    )
    with TerminalSession(
        [sys.executable, "-c", script], cwd=here, environ=kept | environ
    ) as terminal:
        terminal.wait_for(seen)
        assert terminal.exit_code() == 0


def test_a_folder_name_cannot_forge_a_line(tmp_path: Path, capsys: Captured):
    odd = tmp_path / "x\n✔ all is well\x1b[8m"
    odd.mkdir()
    assert run("-w", str(odd)) == 0
    text = capsys.readouterr().out
    assert re.search(r"^ {10,}✔ all is well␛\[8m is not trusted", text, re.MULTILINE)
    assert "\n✔ all" not in text
    assert "\x1b" not in text


def test_json_is_valid_text_for_any_folder_name(tmp_path: Path, capsys: Captured):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(odd)
    assert run("-w", odd, "--json") == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert any("/\ufffd is not trusted" in finding["text"] for finding in findings)


@pytest.mark.parametrize("path", [":/usr/lib", "/usr/lib:", "/usr/lib::/opt", ":", "lib", "."])
def test_a_relative_pythonpath_is_reported(path: str):
    [found] = doctor.check_python_path({"PYTHONPATH": path})
    assert found.health is Health.WARN
    assert found.todo == "Use only absolute paths in PYTHONPATH, or unset it."
    assert "sitecustomize.py" in found.text


@pytest.mark.parametrize("path", ["", "/usr/lib", "/usr/lib:/opt"])
def test_an_absolute_pythonpath_is_not_reported(path: str):
    assert list(doctor.check_python_path({"PYTHONPATH": path})) == []


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("/bin/bash", ".local/share/bash-completion/completions/rookery"),
        ("/usr/bin/zsh", ".zfunc/_rookery"),
        ("/usr/bin/fish", ".config/fish/completions/rookery.fish"),
    ],
)
def test_completion_is_searched_where_the_shell_searches(shell: str, file: str, tmp_path: Path):
    environ = {"SHELL": shell, "HOME": str(tmp_path)}
    missing = doctor.check_completion(environ)
    assert f"rookery completion {Path(shell).name} > ~/{file}" in missing.todo
    script = tmp_path / file
    script.parent.mkdir(parents=True)
    script.touch()
    assert doctor.check_completion(environ).text == f"{script}."
    assert doctor.check_completion({"SHELL": "/bin/tcsh", "HOME": str(tmp_path)}).todo == ""


def test_the_full_screen_interface_is_checked():
    assert doctor.check_full_screen({"TERM": "dumb"}).text.startswith(
        "This terminal does not support"
    )
    assert doctor.check_full_screen({"TERM": "xterm"}).text.startswith("textual ")


def test_model_files_are_counted_and_the_package_that_runs_them_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    environ = {"HOME": str(tmp_path)}
    assert checkup.check_model_files(environ).text.startswith("None found. xllamacpp 20")
    models = tmp_path / ".lmstudio/models"
    models.mkdir(parents=True)
    tiny_model(models / "m.gguf")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    found = checkup.check_model_files(environ)
    assert found.text.startswith("1 found in caches of other programs. Running one needs")
    assert found.todo == "pip install xllamacpp"


INTENTS = """\
active_intents:
  - {id: INT-001, name: One, status: IN_PROGRESS, owned_scope: ["src/**"]}
  - {id: INT-002, name: Two, status: PENDING, owned_scope: ["docs/**"]}
"""


def test_missing_intents_and_hooks_are_not_mentioned(here: Path):
    assert governed(here) == {}


def test_intents_and_the_ledger_have_a_line_each(here: Path):
    folder = here / ".orchestration"
    folder.mkdir()
    (folder / "active_intents.yaml").write_text(INTENTS, encoding="utf-8")
    (folder / "agent_trace.jsonl").write_bytes(b'{"id": "1"}\n')
    before = everything_in(here)
    found = governed(here)
    assert found["intents"] == Finding("intents", Health.OK, "1 of 2 in progress.")
    assert found["ledger"].health is Health.OK
    assert "rookery trace verify" in found["ledger"].text
    assert everything_in(here) == before


@pytest.mark.parametrize(
    ("text", "health"),
    [
        (INTENTS.replace("PENDING", "DOING"), Health.WARN),
        ("active_intents: {", Health.BAD),
    ],
    ids=["one intent", "the file"],
)
def test_faulty_intents_are_reported_with_a_fix(here: Path, text: str, health: Health):
    (here / ".orchestration").mkdir()
    (here / ".orchestration" / "active_intents.yaml").write_text(text, encoding="utf-8")
    found = governed(here)["intents"]
    assert (found.health, found.todo) == (health, "rookery intents validate")
    assert "1 error" in found.text


@pytest.mark.parametrize("end", [b'{"id": "2"', b"not a record\n"])
def test_a_truncated_ledger_is_reported(here: Path, end: bytes):
    folder = here / ".orchestration"
    folder.mkdir()
    (folder / "active_intents.yaml").write_text(INTENTS, encoding="utf-8")
    (folder / "agent_trace.jsonl").write_bytes(b'{"id": "1"}\n' + end)
    found = governed(here)["ledger"]
    assert (found.health, found.todo) == (Health.WARN, "rookery trace verify")


def test_trusted_and_untrusted_hooks_are_counted(here: Path):
    folder = here / ".orchestration"
    folder.mkdir()
    (folder / "active_intents.yaml").write_text(INTENTS, encoding="utf-8")
    hook = {"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}
    held = json.dumps({"hooks": {"PreToolUse": [hook]}})
    (folder / "hooks.json").write_text(held, encoding="utf-8")
    TrustStore(find_places(os.environ).trust_file).trust(here)
    before = everything_in(here)
    found = governed(here)["hooks"]
    assert (found.health, found.text) == (Health.WARN, "0 trusted, 1 untrusted.")
    assert found.todo == "rookery hooks list"
    assert everything_in(here) == before
