"""The positive grammar, and the proof that every shell reads a plain line as we do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rookery.commands.plain_line import LONGEST, MOST_COMMANDS, plain
from rookery.engine.ports.actions import Pipeline, PlainCommand

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SHELLS = [shell for name in ("bash", "dash", "zsh") if (shell := shutil.which(name))]

READ = [
    ("ls", (Pipeline((PlainCommand(("ls",)),)),)),
    (
        "cat 'a b' | head -n 5 && pwd",
        (
            Pipeline((PlainCommand(("cat", "a b")), PlainCommand(("head", "-n", "5")))),
            Pipeline((PlainCommand(("pwd",)),), "succeeded"),
        ),
    ),
    (
        "ls; rg x || wc",
        (
            Pipeline((PlainCommand(("ls",)),)),
            Pipeline((PlainCommand(("rg", "x")),), "always"),
            Pipeline((PlainCommand(("wc",)),), "failed"),
        ),
    ),
    ("ls x 2>/dev/null", (Pipeline((PlainCommand(("ls", "x"), "dropped"),)),)),
    (
        "ls 2>&1 | wc",
        (Pipeline((PlainCommand(("ls",), "with output"), PlainCommand(("wc",)))),),
    ),
    ("git log --format='%h %s'", (Pipeline((PlainCommand(("git", "log", "--format=%h %s")),)),)),
    ("git show HEAD~2^:a", (Pipeline((PlainCommand(("git", "show", "HEAD~2^:a")),)),)),
    ("grep a'b'\"c\" x", (Pipeline((PlainCommand(("grep", "abc", "x")),)),)),
    ("ls > /dev/null 2>&1", (Pipeline((PlainCommand(("ls",), "dropped", "dropped"),)),)),
    ("ls 2>&1 >/dev/null", (Pipeline((PlainCommand(("ls",), "with output", "dropped"),)),)),
    ("[ ! -d x ]", (Pipeline((PlainCommand(("test", "!", "-d", "x")),)),)),
    ("cd a && cd b; ls", (Pipeline((PlainCommand(("ls",), folder="a/b"),)),)),
    ("ls a*'*'", (Pipeline((PlainCommand(("ls", "a**"), patterns=((1, "a*[*]"),)),)),)),
    ("cat ''", (Pipeline((PlainCommand(("cat", "")),)),)),
    ("wc < 'a b' 2>&1", (Pipeline((PlainCommand(("wc",), "with output", source="a b"),)),)),
    (
        "find a -exec wc {} \\;",
        (Pipeline((PlainCommand(("find", "a", "-exec", "wc", "{}", ";")),)),),
    ),
    ("type ls", (Pipeline((PlainCommand(("which", "ls")),)),)),
]


@pytest.mark.parametrize(("text", "read"), READ, ids=lambda value: str(value)[:30])
def test_plain_lines_are_parsed(text: str, read: object):
    assert plain(text) == read


NOT_PLAIN = [
    *("", " ", " ls", "ls ", "ls  x", "ls\tx", "ls\n", "ls\r", "ls;", "ls; ", "; ls", "ls ;; ls"),
    *("ls && ", "&& ls", "ls & ls", "ls &", "ls|wc", "ls&&wc", "ls;wc", "ls |& wc"),
    *(
        "ls $x",
        "ls `x`",
        "ls \\x",
        "ls (x)",
        "ls {a,b}",
        "ls [a",
        "ls [$x]",
        "ls *(e:id:)",
        "ls !x",
        "ls #x",
    ),
    *("ls > x", "ls >x", "ls 2>x", "ls 2>/dev/null x", "ls > /dev/nullx", "ls > /dev/tcp/a/1"),
    *("ls > /dev/sda", "ls > /dev/null/../x", "> /dev/null", "ls >/dev/null x", "ls >> x"),
    *(
        *("ls 2>&1 x", "ls 1>&2", "ls < x < y", "ls < *", "ls < $x", "ls <> x", "ls <<x", "2>&1"),
        *("2>/dev/null", "ls >&2", "ls &>x"),
    ),
    *("ls >|/dev/null", "ls > '/dev/null'", "[ -f x", "[ -f x ]x", "[ x ]", "[ -f x -o -f y ]"),
    *("[[ x =~ y ]]", "[ -v x ]", "[ -f *.py ]"),
    *("[-f x ]", "[ $x ]", "[[ -f x ]", "[ -f x ]]", "[ ]", "[ -eq 1 ]", "[ ! x ]", "[ -t 1 ]"),
    *("cd", "cd -", "cd -P x && ls", "cd ~ && ls", "cd $x && ls", "cd x", "cd x | ls"),
    *("ls || cd x; ls", "ls && cd x && ls", "cd x || ls", "cd x y && ls", "cd * && ls"),
    *("ls && cd x", "cd '' && ls"),
    *("cd x 2>/dev/null && ls", "cd x & ls", "(cd x && ls)", "cd x&& ls", "pushd x && ls"),
    *("a=b ls", "a=b", "=ls", "a=b=c ls", "ls =x", "ls ~", "ls ~/x", "ls /~", "ls ^x", "ls -x=~"),
    *(
        *("ls 'a", 'ls "a', 'ls "a`b"', 'ls "a$b"', 'ls "a\\$b"', 'ls "a\\\\"'),
        *('ls "a!b"', 'ls "$(x)"'),
    ),
    *("echo 'a\\' ; id '", 'ls "\\"x"', "ls $'a'", 'ls $"a"', "ls 'a\tb'", "ls '\x7f'"),
    *("ls é", "ls 'é'", "ls \x00", "'ls'", '"ls"', "l's'", "''", "-x", "%1", "@x", "+x", ",x"),
    *("cd x", "export A", "eval ls", ". x", "source x", "exec ls", "set -x", "if ls", "time ls"),
    *(
        *("alias x", "printf -v x y", "printf", "kill 1", "type -t ls", "type cd", "read x"),
        *("trap x", "command ls"),
    ),
    *("then", "do"),
    *("echo -n x", "echo -e x", "echo --help", "echo -", "pwd -P", "true x", "false --help"),
    *("test", "test x", "test a = b", "test -f", "test -f a -a b", "test 1 -eq x", "test ! x"),
    "ls " + "x" * LONGEST,
    " && ".join(["ls"] * (MOST_COMMANDS + 1)),
]


@pytest.mark.parametrize("text", NOT_PLAIN, ids=lambda text: repr(text)[:30])
def test_other_lines_are_not_plain(text: str):
    assert plain(text) is None


def test_the_limits_are_inclusive():
    assert plain(" && ".join(["ls"] * MOST_COMMANDS)) is not None
    assert plain("ls " + "x" * (LONGEST - 3)) is not None


NAMES = ["aa", "bb", "cc", "git", "ls"]
CHARACTERS = "aZ09_-./:,@%+=~^ '\"$`\\!(){}[]<>&|;#*?\t\né"
PLAIN_PIECES = [
    *("a", "B7", "x.y", "./p", "-l", "--long", "--v=", "a~", "a^", "@", "%", "+", ":", ",", "_"),
    *("'q r'", '"q r"', "''", '""', "'*'", '"#;&|<>"', "'(){}[]?'", "'~'", "2", "1", "-n5", "b=c"),
    *("'$x `y` \\ ! \"'", '"a\\w|\\."', '"x$"', '"it\'s"', "'\\'"),
]
ODD_PIECES = [
    *("~", "^", "$x", "`x`", "\\", "!", "{a,b}", "*", "#", "=b", "\t", "é", "$(aa)", "2>&1", ">x"),
]
_pieces = st.sampled_from(PLAIN_PIECES * 8 + ODD_PIECES)
_word = st.lists(_pieces, min_size=1, max_size=4).map("".join)
_command = st.tuples(st.sampled_from(NAMES), st.lists(_word, max_size=4)).map(
    lambda made: " ".join([made[0], *made[1]])
)
_joint = st.sampled_from([" && ", " || ", " | ", "; ", " ; ", " 2>&1 | ", " 2>/dev/null; "] * 9 + [
    " & ", "|", "\n", " ;; ", "  ", " |& ", ";"
])  # fmt: skip
_line = st.lists(st.tuples(_command, _joint), min_size=1, max_size=4).map(
    lambda made: "".join(text + joint for text, joint in made[:-1]) + made[-1][0]
)
_noise = st.text(alphabet=CHARACTERS, max_size=12).map(lambda rest: f"aa {rest}")


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that write down how they were called, each in one piece, and succeed."""
    folder = tmp_path_factory.mktemp("recorders")
    recorder = "#!/bin/sh\nsign=$(printf '\\037')\ncall=${0##*/}\n"
    recorder += 'for word; do call="$call$sign$word"; done\nprintf "%s\\036" "$call" >> "$RECORD"\n'
    for name in NAMES:
        (folder / name).write_text(recorder, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def recorded(shell: str, text: str, recorders: Path) -> list[tuple[str, ...]]:
    """The argument lists of all programs a shell starts for the text, in no certain order."""
    record = recorders / "record"
    record.write_text("", encoding="utf-8")
    subprocess.run(
        [shell, "-c", text],
        env={"PATH": str(recorders), "RECORD": str(record)},
        cwd=recorders,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    calls = record.read_text(encoding="utf-8").split("\x1e")[:-1]
    return sorted(tuple(call.split("\x1f")) for call in calls)


def expected(text: str) -> list[tuple[str, ...]] | None:
    """What runs if every program succeeds."""
    read = plain(text)
    if read is None:
        return None
    ran: list[tuple[str, ...]] = []
    commands = [one for pipeline in read for one in pipeline.commands]
    if any(one.patterns or one.folder or one.source for one in commands):
        return None  # what runs depends on the files there are
    for pipeline in read:
        if pipeline.when != "failed":
            ran += [command.words for command in pipeline.commands]
    return sorted(ran)


@settings(
    max_examples=6_000 if TORTURE else 50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(text=st.one_of(_line, _line, _noise))
@example(text="aa 'x y' \"z\" --v='1 2' a~ b^ 2>&1 | bb 2>/dev/null; cc && git log || ls")
def test_every_shell_runs_exactly_the_parsed_words(recorders: Path, text: str):
    ours = expected(text)
    if ours is None:
        return
    for shell in SHELLS:
        assert recorded(shell, text, recorders) == ours, (shell, text)


def test_the_recorder_records_the_words_of_each_command(recorders: Path):
    """Without a working recorder, the other tests would prove nothing."""
    for shell in SHELLS:
        assert recorded(shell, "aa 'b c' && bb", recorders) == [("aa", "b c"), ("bb",)]
        assert recorded(shell, "aa $nobody_set_this x", recorders) == [("aa", "x")]


OWN_WORDS = [
    *("echo", "echo a b", "echo 'a  b' c", "echo --- x", "echo a -n", "echo ''", "pwd", "true"),
    *("false", "test -f here", "test -f nowhere", "test -d .", "test -n ''", "test -z ''"),
    *("test 1 -lt 2", "test 03 -eq 3", "test 2 -gt 10", "test -e here", "test -s here"),
]


@pytest.mark.parametrize("text", OWN_WORDS)
def test_programs_behave_like_the_shells_builtins(tmp_path: Path, text: str):
    (tmp_path / "here").write_text("x", encoding="utf-8")
    read = plain(text)
    assert read is not None
    words = read[0].commands[0].words
    ours = subprocess.run(words, cwd=tmp_path.resolve(), capture_output=True, check=False)
    for shell in SHELLS:
        theirs = subprocess.run(
            [shell, "-c", text], cwd=tmp_path.resolve(), capture_output=True, check=False
        )
        assert (theirs.stdout, theirs.returncode) == (ours.stdout, ours.returncode)


@settings(max_examples=1000 if TORTURE else 50)
@given(st.text(max_size=200))
def test_any_text_can_be_parsed_without_an_error(text: str):
    read = plain(text)
    assert read is None or all(pipeline.commands for pipeline in read)
