"""What the judge makes of command lines: targets, reach, reasons, and its own bounds."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rookery.commands.judge import CommandJudge
from rookery.commands.lookups import ProgramPath
from rookery.commands.nested_commands import whole_line
from rookery.core.asks import Decision
from rookery.core.limits import KIB, Limits
from rookery.engine.ports.actions import Action, Deed, Pipeline, PlainCommand, Target
from rookery.workspace.files import WorkspaceFiles
from support.command_project import Bench, bench, decision, never
from support.each_row import each_row

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
LONGEST_WAIT = 5.0
"""Seconds of the processor's time for a hostile text; it takes about a quarter of one."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = bench(tmp_path_factory.mktemp("project"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PATH", str(made.programs))
        yield made


TARGETS = [
    ("rm -rf build", [Target(Deed.DELETE, "build", reach="3 files below build/")]),
    ("rm build/*.o", [Target(Deed.DELETE, "build/a.o"), Target(Deed.DELETE, "build/b.o")]),
    ("rm build/{a,b}.o", [Target(Deed.DELETE, "build/a.o"), Target(Deed.DELETE, "build/b.o")]),
    ("cp notes.txt docs", [Target(Deed.READ, "notes.txt"), Target(Deed.WRITE, "docs/notes.txt")]),
    ("mv notes.txt x", [Target(Deed.DELETE, "notes.txt"), Target(Deed.WRITE, "x")]),
    ("echo a > x; ls", [Target(Deed.WRITE, "x"), Target(Deed.READ, ".")]),
    ("cat <README.md", [Target(Deed.READ, "README.md")]),
    ("cd src && cat app.py", [Target(Deed.READ, "src/app.py")]),
    ("(cd src; cat app.py); ls", [Target(Deed.READ, "src/app.py"), Target(Deed.READ, ".")]),
    ("env -C src cat app.py", [Target(Deed.READ, "src/app.py")]),
    ("bash -c 'cd src; rm util.py'", [Target(Deed.DELETE, "src/util.py")]),
    ("rm link_out", [Target(Deed.DELETE, "link_out")]),
    ("cat link_in", [Target(Deed.READ, "src/app.py")]),
    ("git status", [Target(Deed.READ, ".")]),
    ("ls", [Target(Deed.READ, ".")]),
    ("echo hello", []),
    ("cat README.md 2>/dev/null", [Target(Deed.READ, "README.md")]),
    ("cat README.md > /dev/null", [Target(Deed.READ, "README.md")]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "targets"), TARGETS, ids=lambda value: str(value)[:40])
def test_the_targets_of_a_line_are_named(here: Bench, line: str, targets: list[Target]):
    found = here.judge(line, "").targets
    assert sorted(found, key=repr) == sorted(targets, key=repr)


@each_row("line", ["rm -rf build", "mv a b", "cp -r src x", "echo a > x", "mkdir -p y"])
def test_commands_that_change_known_files_still_need_approval(here: Bench, line: str):
    judged = here.judge(line, "")
    assert judged.why_not == ""
    assert judged.plain is None
    assert not judged.only_reads


def test_deleting_a_loop_of_links_deletes_the_link(tmp_path: Path):
    made = bench(tmp_path)
    (made.root / "loop").symlink_to("loop")
    judged = made.judge("rm loop", "")
    assert (judged.targets, judged.dangers) == ((Target(Deed.DELETE, "loop"),), ())
    for line in ("rm loop/a", "echo a > loop", "cat loop"):
        assert "a symbolic link to loop" in made.judge(line, "").why_not


def test_a_long_chain_of_links_is_followed_from_the_folder_that_was_entered(tmp_path: Path):
    made = bench(tmp_path)
    (made.root / "d0").mkdir()
    (made.root / "d0" / "p0").symlink_to("/proc/self/cwd/x")
    for at in range(1, 26):
        (made.root / f"d{at}").symlink_to(f"d{at - 1}")
        (made.root / "d0" / f"p{at}").symlink_to(f"p{at - 1}")
    judged = made.judge("cd d25 && cat p20", "")
    assert "leads through files of a running process" in judged.why_not


NOTES = [
    ("rm -rf build", "deletes 3 files below build/"),
    ("find build -name '*.o' -delete", "deletes some of the 3 files below build/"),
    ("echo a > notes.txt", "overwrites notes.txt"),
    ("echo a > new.txt", "writes new.txt"),
    ("cat @OUT@/marker.txt", "reads outside the workspace: @OUT@/marker.txt"),
    ("cat secret.txt", "reads secret.txt, which is hidden from the agent"),
    ("git fetch", "uses the network"),
]


@each_row(("line", "note"), NOTES)
def test_notes_describe_the_effects_of_a_command(here: Bench, line: str, note: str):
    assert here.spelled(note) in here.judge(here.spelled(line), "").notes


DOUBTS = [
    ('rm "$DIR"', 'its targets are known only when it runs: "$DIR"'),
    ("$CMD x", "which program it runs is known only when it runs: $CMD"),
    ("echo ${x@P}", "it rewrites a variable: ${x@P}"),
    ("f() { ls; }", "it defines functions"),
    ("ls 'a", "it is not proper shell text"),
    ("pytest", "what pytest does is not known"),
    ("ls --frobnicate", "ls: unknown option --frobnicate"),
    ("sudo ls", "sudo runs other commands"),
    ("rm --frobnicate x", "rm: unknown option --frobnicate"),
    ("cp -rZ a b", "cp: unknown option -Z"),
    ("curl -K x", "curl: unknown option -K"),
]


@each_row(("line", "doubt"), DOUBTS)
def test_the_judgement_says_why_a_line_is_not_understood(here: Bench, line: str, doubt: str):
    judged = here.judge(line, "")
    assert doubt in judged.why_not
    assert judged.plain is None
    assert not judged.only_reads


def test_an_allowed_line_carries_absolute_programs(here: Bench):
    cat, head = str(here.programs / "cat"), str(here.programs / "head")
    judged = here.judge("cat README.md 2>&1 | head -n 1", "")
    first, second = PlainCommand((cat, "README.md"), "with output"), PlainCommand((head, "-n", "1"))
    assert judged.plain == (Pipeline((first, second)),)
    assert judged.only_reads


def test_paths_are_relative_to_the_given_folder(here: Bench):
    assert here.judge("cat app.py", "src").targets == (Target(Deed.READ, "src/app.py"),)
    assert here.judge("cat ../notes.txt", "src").plain
    assert here.judge("cat ../../outside/marker.txt", "src").plain is None
    assert here.judge("rm -rf ..", "src").dangers


def test_files_in_a_large_folder_are_counted_up_to_a_limit(here: Bench, tmp_path: Path):
    made = bench(tmp_path / "large")
    many = made.root / "many"
    many.mkdir()
    (many / "0").touch()
    for number in range(1, 5_001):
        os.link(many / "0", f"{many}/{number}")
    assert "deletes more than 5,000 files below many/" in made.judge("rm -rf many", "").notes


def test_programs_are_not_taken_from_unsafe_folders(tmp_path: Path):
    root, good, temporary = tmp_path / "ws", tmp_path / "good", tmp_path / "tmp"
    for folder in (root / "bin", good, temporary):
        folder.mkdir(parents=True)
        (folder / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / "tool").chmod(0o755)
    (good / "led").symlink_to(root / "bin" / "tool")
    unsafe = [".", "", "bin", str(root / "bin"), str(temporary)]

    def found(name: str, *folders: str) -> str | None:
        return ProgramPath(":".join(folders), root, temporary=(str(temporary),)).find(name)

    assert found("tool", *unsafe) is None
    assert found("tool", *unsafe, str(good)) == str(good / "tool")
    assert found("led", str(good)) is None
    assert found("good/tool", str(tmp_path)) is None
    assert found("missing", str(good)) is None


def test_programs_are_not_taken_from_where_sandboxed_commands_can_write(tmp_path: Path):
    root, cache, good = tmp_path / "ws", tmp_path / "home" / ".cargo" / "bin", tmp_path / "good"
    for folder in (root, cache, good):
        folder.mkdir(parents=True)
    (cache / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
    (cache / "tool").chmod(0o755)
    (good / "led").symlink_to(cache / "tool")
    path = f"{cache}:{good}"

    def found(name: str, *writable: Path) -> str | None:
        return ProgramPath(path, root, temporary=(), writable=list(map(str, writable))).find(name)

    assert found("tool") == str(cache / "tool")
    assert found("tool", cache.parent) is None
    assert found("led", cache) is None


def _judge(here: Bench, **more: Any) -> CommandJudge:
    files = WorkspaceFiles(here.root, Limits(), home=here.home)
    hiding = files.boundaries.hiding
    return CommandJudge(files, here.root, home=here.home, hiding=hiding, temporary=(), **more)


def test_a_line_with_a_program_from_a_writable_folder_is_not_plain(here: Bench):
    assert _judge(here)("ls", "").plain
    assert _judge(here, writable=(str(here.programs),))("ls", "").spelled is None


def test_git_in_a_repository_that_is_not_the_folders_own_needs_approval(here: Bench):
    judge = _judge(here, own_repository=lambda: False)
    judged = judge("ls && git status", "")
    assert judged.plain is None
    assert judged.spelled is None
    assert "not this folder's own" in judged.why_not
    assert judge("ls", "").plain
    assert _judge(here)("git status", "").plain


@pytest.mark.parametrize("folder", ["", ".hidden", "node_modules/x", "__pycache__"])
@pytest.mark.parametrize("line", ["rg KEY", "rg -g secret.txt KEY", "rg --iglob '!x' KEY"])
def test_rg_in_a_folder_with_hidden_files_needs_approval(
    here: Bench, request: pytest.FixtureRequest, folder: str, line: str
):
    project = here.root / "project"
    request.addfinalizer(lambda: shutil.rmtree(project))
    (project / folder).mkdir(parents=True)
    (project / folder / "secret.txt").write_text("KEY=1\n", encoding="utf-8")
    judged = here.judge(f"{line} project", "")
    assert judged.plain is None
    assert any("would read" in note for note in judged.notes)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A workspace in which every pattern leads only to files that may be read."""
    made = bench(tmp_path_factory.mktemp("clean"))
    for name in (
        *("link_out", "link_secret", "link_keys", "dangling", "secret.txt", ".rookeryignore"),
    ):
        (made.root / name).unlink()
    return made


NAMED = [
    ("-o", "sort *", False),
    ("--output=x", "sort *", False),
    ("src/-o", "sort src/*", False),
    ("-R", "ls *", False),
    ("[ab].txt", "cat [ab].txt", True),
    ("a b.txt", "cat *.txt", True),
    ("src/a b.py", "find src -name '*.py' | xargs wc -l", False),
    ("src/a b.py", "find src -name '*.py' -print0 | xargs -0 wc -l", True),
    ("src/a'b", "find src -type f | xargs cat", False),
    ('src/a"b', "find src -type f | xargs cat", False),
    ("src/a\\b", "find src -type f | xargs cat", False),
    ("src/a\nb", "find src -type f | xargs cat", False),
    ("src/x -o y/", "find src | xargs cat", False),
    ("src/.env", "find src -type f | xargs cat", True),
    (".npmrc", "npm ls", False),
    (".npmrc", "cd src && npm ls", False),
    ("src/.npmrc", "npm ls", True),
    ("src/.npmrc", "cd src && npm ls", False),
    (".npmrc", "npm --version", False),
    ("rust-toolchain.toml", "cargo --version", False),
    ("rust-toolchain.toml", "cd src && rustc --version", False),
    (".yarnrc.yml", "yarn --version", False),
    ("package.json", "pnpm --version", False),
    (".mvn/jvm.config", "mvn --version", False),
    ("conftest.py", "pytest --version", False),
    ("tests/conftest.py", "pytest --version", False),
    ("pyproject.toml", "pytest --version", False),
    (".tool-versions", "node --version", False),
    ("mise.toml", "python --version", False),
    ("setup.cfg", "flake8 --version", False),
    (".hg/hgrc", "hg --version", False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "unasked"), NAMED)
def test_files_in_the_workspace_can_make_a_line_need_approval(
    clean: Bench, monkeypatch: pytest.MonkeyPatch, name: str, line: str, unasked: bool
):
    monkeypatch.setenv("PATH", str(clean.programs))
    assert clean.judge(line.replace(".txt", ".md"), "").plain
    with _put(clean.root / name, is_folder=name.endswith("/")):
        assert bool(clean.judge(line, "").plain) is unasked


@contextmanager
def _put(path: Path, *, is_folder: bool) -> Iterator[None]:
    """A file or folder that is gone afterwards, with the folders that were made for it."""
    new = next(at for at in (*reversed(path.parents), path) if not at.exists())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if is_folder else path.touch()
    yield
    new.unlink() if new.is_file() else shutil.rmtree(new)


def test_a_workspace_program_of_the_same_name_needs_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = bench(tmp_path)
    own = made.root / "venv" / "bin"
    own.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{own}:{made.programs}")
    assert made.judge("cat README.md", "").plain
    assert made.judge("pip list", "").plain is None, "a script would look for others there"
    (made.programs / "gcc").write_bytes(b"\x7fELF")
    assert made.judge("gcc --version", "").plain
    (own / "gcc").write_text("#!/bin/sh\n", encoding="utf-8")
    (own / "gcc").chmod(0o755)
    assert made.judge("gcc --version", "").plain is None


def test_expanded_patterns_and_folders_run_as_judged(here: Bench):
    wc, xargs, find = (str(here.programs / name) for name in ("wc", "xargs", "find"))
    judged = here.judge("cd src && wc -l *.py > /dev/null", "")
    ran = PlainCommand((wc, "-l", "app.py", "util.py"), "kept", "dropped", "src")
    assert judged.plain == (Pipeline((ran,)),)
    judged = here.judge("find src -name '*.py' | xargs -n 1 wc -l", "")
    first = PlainCommand((find, "src", "-name", "*.py"))
    assert judged.plain == (Pipeline((first, PlainCommand((xargs, "-n", "1", wc, "-l")))),)


HIDDEN = ["rm -rf build", "git reset --hard", "rm -rf .", "git push --force", "rm -rf /"]
DENIED = ("rm -rf", "git reset", "git push")


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _double(text: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)
    return f'"{escaped}"'


def _behind(document: str, text: str) -> str:
    """A text of more lines would be the document itself."""
    return _around(document, text) if "\n" not in text else text


def _around(document: str, text: str) -> str:
    """The end of each document is another one, so that none ends that of another."""
    return document.format(text, end=f"E{len(text)}")


WRAPS = [
    lambda text: f"ls && {text}",
    lambda text: f"ls; {text}",
    lambda text: f"ls | {text}",
    lambda text: f"ls & {text}",
    lambda text: f"ls\n{text}",
    lambda text: f"( {text} )",
    lambda text: f"{{ {text}; }}",
    lambda text: f"echo $({text})",
    lambda text: f'echo "a $({text}) b"',
    lambda text: f"cat <({text})",
    lambda text: f"if true; then {text}; fi",
    lambda text: f"for x in 1 2; do {text}; done",
    lambda text: f"while false; do {text}; done",
    lambda text: f"f() {{ {text}; }}; f",
    lambda text: f"x=$({text})",
    lambda text: f"cat <<EOF\n$({text})\nEOF\n",
    lambda text: _behind("cat <<{end} && {}\nx\n{end}\n", text),
    lambda text: _behind("cat <<'{end}' > out.txt; {}\nx\n{end}\n", text),
    lambda text: _behind("cat <<-{end} | {}\nx\n{end}\n", text),
    lambda text: _around("cat <<A <<'B'\nx\nA\n$(\nB\n{}\n", text),
    lambda text: _around("bash <<'{end}' > out.txt\n{}\n{end}\n", text),
    lambda text: _around("cat <<'{end}' | sh\n{}\n{end}\n", text),
    lambda text: _around(f"cat > out.txt <<'{{end}}'\n{'it is long ' * 900}\n{{end}}\n{{}}", text),
    lambda text: _around("{{ {}\n}} <<{end} > out.txt\nx\n{end}\n", text),
    lambda text: _around("read x <<'{end}'\na[$({})]\n{end}\n[[ $x -eq 0 ]]", text),
    lambda text: f"$BASH -c {_single(text)}",
    lambda text: f"trap -- {_single(text)} EXIT",
    lambda text: f"bash -c {_single(text)}",
    lambda text: f"sh -c {_double(text)}",
    lambda text: f"eval {_single(text)}",
    lambda text: f"eval $x{_single('; ' + text)}",
    lambda text: f'sh -c {_double(text)}" $x"',
    lambda text: _around("bash <<{end}\n$x\n{}\n{end}\n", text),
    lambda text: f"true || {text}",
    lambda text: f"! {text}",
]  # fmt: skip
PREFIXES = [
    *("sudo ", "env A=1 ", "nohup ", "timeout 5 ", "nice -n 5 ", "command ", "/bin/", "\\", ""),
]


PIECES = ["rm ", "-rf ", "$(", ")", "'", '"', "`", "<<E\n", "sh -c ", "~", ";", "\ud800", "\0"]


@st.composite
def _nested(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(PREFIXES)) + draw(st.sampled_from(HIDDEN))
    for _ in range(draw(st.integers(0, 3))):
        text = draw(st.sampled_from(WRAPS))(text)
    return text


@settings(
    max_examples=1000 if TORTURE else 40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=_nested())
@pytest.mark.anyio
async def test_a_denied_command_is_found_in_any_nesting(here: Bench, text: str):
    judged = here.judge(text, "")
    assert await decision(judged, text, deny=DENIED) is Decision.DENY, judged.commands
    assert await decision(judged, text) is not Decision.ALLOW
    assert judged.plain is None


@settings(
    max_examples=1000 if TORTURE else 50,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=_nested().filter(lambda text: "rm -rf build" not in text))
@example(text="read x <<'E'\na[$(trap -- 'sudo git reset --hard' EXIT)]\nE\n[[ $x -eq 0 ]]")
def test_a_dangerous_command_is_found_in_any_nesting(here: Bench, text: str):
    assert here.judge(text, "").dangers, here.judge(text, "").commands


@settings(
    max_examples=1000 if TORTURE else 60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.one_of(
        st.text(max_size=120),
        st.text(alphabet="$(){}[]<>|&;\"'`\\ \n!#*?~=abcrm-/", max_size=200),
        st.lists(st.sampled_from(PIECES)).map("".join),
    )
)  # fmt: skip
def test_any_text_can_be_judged(here: Bench, text: str):
    judged = here.judge(text, "")
    assert judged.plain is None or judged.only_reads


UNITS = [
    *("$(", "`", "((", "$((", '"$(', "'", '"', "{a,b}", "*/", "*", "ls|", "ls;", "rm a;", "a=("),
    *("sudo -z ", "env ", "cat <<E\n", "if ", "f(){ ", "\\\n", "${", "<(", "sh -c '", "[[ ", "<"),
    *("cd x;", "cd $x;", "\0", "é\u202e", "find . -exec rm {} + ", 'eval "$(', "a ", "/a/../"),
    *("<<'a'\n", "cat <<E\nE\n", "cat <<E\n`a`\nE\n", "`a`", "[[ $a -eq ", "'a[$(", "a[", "<<'a"),
    *("cat <<E\nx\\\n", "bash <<E\n", "((1<<", "\"${x:-'", "rm > x a ", "a[*", "mapfile -C a "),
]


BACKTRACKING = ["a[", "[", "<<'a", "'", '"', "$(", "x='", "{", "\\\n", "((", "`"]
LARGEST = [*BACKTRACKING, *(UNITS if TORTURE else UNITS[1::16])]
"""Units of the longest texts: those on which a pattern could spend time that grows with the square
of the length, and a few others."""


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        *((unit, 4 * KIB if TORTURE else 2 * KIB) for unit in UNITS),
        *((unit, 64 * KIB) for unit in LARGEST),
    ],
    ids=repr,
)
def test_judging_a_hostile_text_takes_bounded_time(here: Bench, unit: str, size: int):
    text = "rm -rf " + (unit * size)[:size]
    started = time.process_time()
    judged = here.judge(text, "")
    assert time.process_time() - started < LONGEST_WAIT
    assert judged.plain is None


@pytest.mark.parametrize("unit", UNITS if TORTURE else UNITS[::24], ids=repr)
def test_judging_work_is_linear_in_the_length_of_the_text(here: Bench, unit: str):
    """Four times as long a text, four times the work; with the square it would be sixteen."""
    sizes = (9 * KIB, 36 * KIB) if TORTURE else (4 * KIB, 16 * KIB)
    short, long = (_work(here, "bash; rm " + (unit * size)[:size]) for size in sizes)
    assert long < 8 * short + 20_000


def _work(here: Bench, text: str) -> int:
    """How many functions are called, of Python and of C."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        here.judge(text, "")
    finally:
        sys.setprofile(None)
    return calls


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = bench(tmp_path_factory.mktemp("deep"))
    for number in range(60):
        (made.root / f"many/{number % 20}/{number}/deep").mkdir(parents=True)
    return made


def test_all_patterns_of_a_line_share_one_limit(deep: Bench):
    looked, really_look = 0, os.scandir

    def look(*folder: Any) -> Any:
        nonlocal looked
        looked += 1
        return really_look(*folder)

    with pytest.MonkeyPatch.context() as counted:
        counted.setattr(os, "scandir", look)
        judged = deep.judge("rm " + "many/*/*/* many/*/*/ " * 200, "")
    assert 100 < looked < 16_000
    assert judged.plain is None
    assert "names too many files to be checked" in judged.dangers


def test_a_line_that_is_too_long_is_dangerous(here: Bench):
    judged = here.judge("ls " + "x" * 300 * KIB, "")
    assert judged.dangers
    assert judged.too_deep


def test_the_body_of_a_long_here_document_is_not_a_command(here: Bench):
    body = "rm -rf / # an example\n" * 1_000
    judged = here.judge(f"cat > new.txt <<'EOF'\n{body}EOF\n", "")
    assert judged.commands == (("cat",),)
    assert judged.targets == (Target(Deed.WRITE, "new.txt"),)
    assert not judged.dangers
    assert here.judge(f"bash <<'EOF'\n{body}EOF\n", "").dangers


def test_a_quoted_here_document_marker_hides_no_command(here: Bench):
    filler = "x" * 9 * KIB
    text = f"echo \"<<'E'\n\" {filler}\nrm -rf /\nE\n"
    assert here.judge(text, "").dangers


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A repository inside the workspace's own."""
    made = bench(tmp_path_factory.mktemp("nested"))
    (made.root / "lib" / ".git").mkdir(parents=True)
    (made.root / "lib" / "deep").mkdir()
    return made


@each_row(
    ("line", "cwd"),
    [
        ("git -C lib log", ""),
        ("cd lib && git add -A", ""),
        ("cd lib/deep && git status", ""),
        ("git status", "lib"),
        ("git init new", ""),
        ("git clone lib new", ""),
    ],
)
def test_git_run_across_nested_repositories_needs_approval(nested: Bench, line: str, cwd: str):
    judged = nested.judge(line, cwd)
    assert (judged.plain, judged.spelled) == (None, None)
    assert "not this folder's own" in judged.why_not
    assert nested.judge("cd docs && git status", "").plain


@each_row(
    "line",
    [
        *("echo ../*", "echo @OUT@/*", "echo @WS@/../home/.ssh/*", "cd docs && echo ../../*"),
        *("printf %s ../outside/nothing*", "echo s*.txt", "echo link_keys/*"),
    ],
)
def test_patterns_that_reach_outside_or_hidden_files_need_approval(here: Bench, line: str):
    assert here.judge(here.spelled(line), "").plain is None
    assert here.judge("echo src/*.py", "").plain


@each_row(("command", "cwd"), [("ls src", ""), ("ls ", ""), ("ls", "src")])
def test_a_judgement_of_another_line_is_refused(here: Bench, command: str, cwd: str):
    judged = here.judge("ls", "")
    Action(title="Run", perform=never, command="ls", judgement=judged)
    with pytest.raises(ValueError, match="not the one that was judged"):
        Action(title="Run", perform=never, command=command, cwd=cwd, judgement=judged)


def test_a_line_is_parsed_once_and_its_files_are_checked_again(here: Bench):
    line = "cat $(echo x) made-later.txt > copy.txt"
    first = here.judge(line, "")
    read = whole_line.cache_info().misses
    assert here.judge(line, "") == first
    with _put(here.root / "copy.txt", is_folder=False):
        assert "overwrites copy.txt" in here.judge(line, "").notes
    assert whole_line.cache_info().misses == read
