"""Plain command lines, run without a shell and compared with what a shell makes of them."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.commands.program_tables import readers
from rookery.engine.ports.actions import Pipeline, Plain, PlainCommand
from rookery.platform.own_programs import git_hardening, hardened
from rookery.sandbox.launcher import plain_argv
from support.each_row import each_row

GIT = shutil.which("git") or "/usr/bin/git"


def program(name: str) -> str:
    return shutil.which(name, path="/usr/bin:/bin") or f"/bin/{name}"


def command(*words: str, errors: str = "kept") -> PlainCommand:
    return PlainCommand((program(words[0]), *words[1:]), errors)  # type: ignore[arg-type]


def run(plain: Plain, folder: Path, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        plain_argv(plain),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)} | env,
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def line(*commands: PlainCommand, when: str = "always") -> Pipeline:
    return Pipeline(commands, when)  # type: ignore[arg-type]


YES, NO = command("true"), command("false")
SAY = command("echo", "said")


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ((line(SAY),), (0, "said\n")),
        ((line(command("echo", "a  b", "$HOME", "*", "'")),), (0, "a  b $HOME * '\n")),
        ((line(NO),), (1, "")),
        ((line(NO, YES),), (0, "")),
        ((line(YES, NO),), (1, "")),
        ((line(command("printf", "b\na\n"), command("sort")),), (0, "a\nb\n")),
        ((line(command("yes"), command("head", "-n", "1")),), (0, "y\n")),
        ((line(command("cat")),), (0, "")),
        ((line(YES), line(SAY, when="succeeded")), (0, "said\n")),
        ((line(NO), line(SAY, when="succeeded")), (1, "")),
        ((line(NO), line(SAY, when="failed")), (0, "said\n")),
        ((line(YES), line(SAY, when="failed")), (0, "")),
        ((line(NO), line(NO, when="succeeded"), line(SAY, when="failed")), (0, "said\n")),
        ((line(YES), line(NO, when="failed"), line(SAY, when="succeeded")), (0, "said\n")),
        ((line(SAY), line(SAY), line(NO)), (1, "said\nsaid\n")),
        ((line(command("ls", "absent", errors="dropped")),), (2, "")),
        ((line(command("ls", "absent", errors="dropped"), command("wc", "-l")),), (0, "0\n")),
        (
            (line(command("ls", "absent", errors="with output"), command("wc", "-l")),),
            (0, "1\n"),
        ),
    ],
)
def test_a_plain_line_does_what_it_says(plain: Plain, expected: tuple[int, str], tmp_path: Path):
    status, out, errors = run(plain, tmp_path)
    assert (status, out) == expected
    assert errors == ""


def test_errors_are_kept_apart_from_pipes(tmp_path: Path):
    status, out, errors = run((line(command("ls", "absent"), command("wc", "-l")),), tmp_path)
    assert (status, out.strip()) == (0, "0")
    assert "absent" in errors


def test_a_program_that_a_signal_ends_ends_as_in_a_shell(tmp_path: Path):
    killed = line(command("timeout", "-s", "KILL", "0.05", program("sleep"), "60"))
    assert run((killed,), tmp_path)[0] == 128 + signal.SIGKILL


def test_a_program_ends_when_its_output_pipe_is_closed(tmp_path: Path):
    """Python ignores that signal, and must not hand this on."""
    status, out, errors = run((line(command("yes"), YES), line(SAY)), tmp_path)
    assert (status, out, errors) == (0, "said\n", "")


@pytest.mark.parametrize(("path", "status"), [("/nonexistent/program", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_be_started_is_named(path: str, status: int, tmp_path: Path):
    plain = (Pipeline((PlainCommand((path,)),)), line(SAY, when="failed"))
    assert run(plain[:1], tmp_path)[0] == status
    code, out, errors = run(plain, tmp_path)
    assert (code, out) == (0, "said\n")
    assert errors.startswith(f"{path}: ")


def test_a_command_runs_in_its_folder_and_its_output_may_be_dropped(tmp_path: Path):
    (tmp_path / "in").mkdir()
    inside = replace(command("pwd", "-P"), folder="in")
    quiet = replace(SAY, output="dropped")
    loud = replace(command("ls", "nowhere", errors="with output"), output="dropped")
    assert run((line(inside),), tmp_path)[1] == f"{tmp_path.resolve()}/in\n"
    assert run((line(quiet), line(SAY, when="succeeded")), tmp_path)[1] == "said\n"
    assert "nowhere" in run((line(loud),), tmp_path)[1]
    assert run((line(replace(SAY, folder="gone")),), tmp_path)[0] == 127


def test_a_name_is_not_a_path():
    with pytest.raises(ValueError, match="not the path"):
        plain_argv((Pipeline((PlainCommand(("ls",)),)),))


def test_no_shell_is_started(tmp_path: Path):
    status, out, _ = run((line(command("echo", "$(touch x); touch y `touch z`")),), tmp_path)
    assert (status, out) == (0, "$(touch x); touch y `touch z`\n")
    assert list(tmp_path.iterdir()) == []


STEPS = st.sampled_from([("true",), ("false",), ("echo", "a"), ("printf", "b"), ("cat",)])
LINES = st.lists(
    st.tuples(
        st.sampled_from(["always", "succeeded", "failed"]),
        st.lists(STEPS, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=5,
)
JOINS = {"always": " ; ", "succeeded": " && ", "failed": " || "}


@settings(max_examples=12 if not os.environ.get("ROOKERY_TORTURE") else 2000, deadline=None)
@given(lines=LINES)
def test_output_and_exit_code_are_those_of_a_shell(
    lines: list[tuple[str, list[tuple[str, ...]]]], tmp_path_factory: pytest.TempPathFactory
):
    lines[0] = ("always", lines[0][1])
    plain = tuple(line(*(command(*step) for step in steps), when=when) for when, steps in lines)
    text = "".join(
        JOINS[when] * (at > 0) + " | ".join(" ".join(step) for step in steps)
        for at, (when, steps) in enumerate(lines)
    )
    folder = tmp_path_factory.getbasetemp()
    shell = subprocess.run(
        ["/bin/sh", "-c", text],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run(plain, folder)[:2] == (shell.returncode, shell.stdout)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return hostile(tmp_path)


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that leave it as it is."""
    return hostile(tmp_path_factory.mktemp("looked-at"))


def hostile(above: Path) -> Path:
    """A repository whose configuration, attributes and hooks all name a program that leaves a mark
    beside it."""
    folder = above / "repository"
    folder.mkdir()
    mark = f"touch '{above}/mark';"
    (folder / "file").write_text("one\n")
    (folder / ".gitattributes").write_text("* diff=evil filter=e=v.il\n")
    settings_ = {
        "core.fsmonitor": mark,
        "core.pager": mark,
        "diff.external": mark,
        "diff.evil.textconv": f"{mark} cat",
        "diff.evil.command": mark,
        "filter.e=v.il.clean": f"{mark} cat",
        "filter.e=v.il.smudge": f"{mark} cat",
        "filter.e=v.il.required": "true",
        "core.hooksPath": str(above / "hooks"),
        "core.sshCommand": mark,
        "gpg.program": str(above / "hooks" / "post-index-change"),
        "log.showSignature": "true",
        "alias.st": f"!{mark}",
    }
    hook = above / "hooks" / "post-index-change"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\n{mark}\n")
    hook.chmod(0o755)
    identity = ["-c", "user.name=a", "-c", "user.email=b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([GIT, *identity, *words], cwd=folder, check=True)
    with (folder / ".git" / "config").open("a") as config:
        for name, text in settings_.items():
            section, _, key = name.rpartition(".")
            first, _, second = section.partition(".")
            quoted = f' "{second}"' if second else ""
            config.write(f'[{first}{quoted}]\n\t{key} = "{text}"\n')
    (folder / "file").write_text("two\n")
    return folder


GIT_LINES = (
    ("status",),
    ("status", "-s"),
    ("diff",),
    ("diff", "--stat", "HEAD", "--", "file"),
    ("log", "-p", "-1"),
    ("show",),
    ("--no-pager", "log", "--oneline"),
    ("blame", "file"),
    ("grep", "two"),
    ("branch", "--list"),
    ("ls-files", "-m"),
    ("describe", "--dirty", "--always"),
    ("log", "--format=%G?"),
    ("stash", "list"),
    ("rev-parse", "HEAD"),
)


def test_git_runs_nothing_of_the_repository(looked_at: Path):
    (looked_at.parent / "mark").unlink(missing_ok=True)
    plain = tuple(
        line(PlainCommand(words), when="succeeded")
        for each in GIT_LINES
        for words in ((program("echo"), "now", *each), (GIT, *each))
    )
    status, out, errors = run((line(YES), *plain), looked_at, GIT_EXTERNAL_DIFF="/bin/false")
    assert (status, errors) == (0, ""), out
    assert not (looked_at.parent / "mark").exists()
    assert "+two" in out
    assert "+one" in out


def test_the_bench_does_leave_marks(looked_at: Path):
    """Proves that the repository above is hostile."""
    (looked_at.parent / "mark").unlink(missing_ok=True)
    subprocess.run([GIT, "diff"], cwd=looked_at, capture_output=True, check=False)
    assert (looked_at.parent / "mark").exists()


BLANKED = (("status", "-v"), ("reflog", "-p"), ("reflog", "show", "-p"))


def test_programs_that_show_differences_are_blanked_by_name(repository: Path):
    """None of these has an option to skip them; git may fail, but runs nothing."""
    (repository / ".git" / "config").rename(repository.parent / "config")
    subprocess.run([GIT, "add", "."], cwd=repository, check=True)
    (repository.parent / "config").rename(repository / ".git" / "config")
    mark = repository.parent / "mark"
    for words in BLANKED:
        run((Pipeline((PlainCommand((GIT, *words)),)),), repository)
        assert not mark.exists()
        subprocess.run([GIT, *words], cwd=repository, capture_output=True, check=False)
        mark.unlink()


@each_row("name", ["git status", "git reflog", "git reflog show"])
def test_commands_that_would_run_diff_programs_are_not_auto_approved(name: str):
    patches = {"-v", "--verbose", "-p", "-u", "--patch", "--patch-with-stat", "-U+NUM", "--cc"}
    assert not patches & set(readers()[name].flags.split())


@pytest.mark.parametrize("folder", ["nested", "bare"])
def test_only_the_repository_of_the_workspace_is_read(repository: Path, folder: str):
    inner = repository / folder
    words = ["init", "-q", *(["--bare"] if folder == "bare" else []), str(inner)]
    subprocess.run([GIT, *words], check=True)
    said = Pipeline((PlainCommand((GIT, "rev-parse", "--absolute-git-dir", "--show-prefix")),))
    done = subprocess.run(
        plain_argv((said,), root=str(repository)), cwd=inner, capture_output=True, text=True
    )
    assert done.stdout == f"{repository}/.git\n{folder}/\n"


def test_options_are_placed_where_git_accepts_them():
    _, options = git_hardening()
    assert hardened(("/bin/git", "-C", "log", "diff", "x"), ("--o",)) == (
        *("/bin/git", "--o", "-C", "log", "diff"),
        *("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "x"),
    )
    assert hardened(("/bin/git",), ("--o",)) == ("/bin/git", "--o")
    assert options[0] == "--no-pager"


def test_no_repository_is_looked_for_above_the_workspace(repository: Path):
    inner = repository / "inner"
    inner.mkdir()
    for root, status in (("", 0), (str(inner), 128)):
        argv = plain_argv((Pipeline((PlainCommand((GIT, "status")),)),), root=root)
        done = subprocess.run(argv, cwd=inner, capture_output=True, check=False)
        assert done.returncode == status


def test_a_commit_bears_the_name_of_the_user_and_obeys_no_other_setting(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    settings = "[user]\nname = Ann\nemail = ann@example.org\n[commit]\ncleanup = nonsense\n"
    (home / ".gitconfig").write_text(settings)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    subprocess.run(["git", "config", "user.email", "local@example.org"], cwd=work, check=True)
    said = command(program("git"), "commit", "-q", "--allow-empty", "-m", "x")
    status, _, errors = run((line(said),), work, HOME=str(home))
    assert (status, errors) == (0, "")
    shown = ["git", "log", "--format=%an %ae %cn"]
    found = subprocess.run(shown, cwd=work, check=True, capture_output=True, text=True)
    assert found.stdout == "Ann local@example.org Ann\n"
