"""Which files matter for a task, which may change, and how a change is checked."""

import subprocess
from pathlib import Path

import pytest

from rookery.guided.checks import (
    check_commands,
    example_checks,
    expected_output,
    failure,
    is_unusable,
    last_words,
)
from rookery.guided.choice import files_to_read, may_change, new_paths, places
from rookery.guided.record import Record
from support.each_row import each_row

FORBIDDEN = [
    ("calc.py", "fix add", True),
    ("test_calc.py", "fix add", False),
    ("test_calc.py", "fix test_calc.py", True),
    ("test_calc.py", "fix add. Do not change test_calc.py.", False),
    ("test_calc.py", "write tests for add", True),
    ("test_calc.py", "fix add, don't touch the tests", False),
    ("config.json", "Fix add without changing config.json", False),
    ("sum.test.js", "fix sum", False),
    ("check.py", "make `python3 check.py` pass", False),
    ("main.py", "fix main.py, see `python3 main.py`", True),
]


@each_row(("path", "task", "may"), FORBIDDEN)
def test_tests_and_forbidden_files_stay(path: str, task: str, may: bool):
    assert may_change(path, task) is may


NEW = [
    ("Create slug.py with a function slugify", ["slug.py"]),
    ("Add a module src/text.js that trims", ["src/text.js"]),
    ("Fix calc.py", []),
    ("Write the number into out/count.txt", ["out/count.txt"]),
    ("Python 3.11 is used, create nothing", []),
    ("create ../evil.py", []),
]


@each_row(("task", "new"), NEW)
def test_a_new_file_is_one_that_the_task_asks_for(task: str, new: list[str]):
    assert new_paths(task, ["calc.py"]) == new


def test_a_new_file_is_offered_instead_of_the_old_ones():
    files = {"a.py": "x = 1\n", "b.py": "y = 1\n"}
    assert [p.name for p in places("create c.py", files, list(files))] == ["c.py"]
    named = places("create c.py and import it in b.py", files, list(files))
    assert [p.name for p in named] == ["c.py", "b.py"]
    style = places("create c.py. b.py shows our style", files, list(files))
    assert [p.name for p in style] == ["c.py"]


def test_only_named_files_are_offered_first():
    files = {"a.py": "x = 1\n", "b.py": "def run_all():\n    pass\n", "c.py": "y = 1\n"}
    assert [p.name for p in places("fix c.py", files, list(files))] == ["c.py"]
    everything = places("fix run_all, see c.py", files, list(files), all_files=True)
    assert [p.name for p in everything] == ["c.py", "b.py", "a.py"]


def test_a_large_file_is_offered_by_sections():
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(200))
    names = [place.name for place in places("fix f1", {"a.py": text}, ["a.py"])]
    assert names[0] == "a.py: def f0():"
    assert len(names) == 40


def test_a_large_project_is_read_where_the_task_points():
    paths = [f"src/m{n}.py" for n in range(30)] + ["README.md"]
    record = Record(task="fix `parse_date` in m7.py", paths=paths, hits={"src/m3.py": 2})
    assert files_to_read(record) == ["src/m7.py", "src/m3.py"]


COMMANDS = [
    ("fix it, see `python3 check.py`", {}, ["a.py"], ["python3 check.py"]),
    ("fix `a.py` and `x == 1`", {}, ["a.py"], []),
    ("fix it. Never run `make deploy`!", {}, ["a.py"], []),
    ("fix it without using `npm run all`, see `node a.js`", {}, ["a.js"], ["node a.js"]),
    ("it does not pass `python3 check.py`", {}, ["a.py"], ["python3 check.py"]),
    ("fix", {"test_a.py": "import unittest"}, ["test_a.py"], ["python3 -m unittest -q"]),
    ("fix", {"test_a.py": "def test_a(): pass"}, ["test_a.py"], ["python3 -m pytest -q"]),
    ("fix", {"package.json": '{"scripts": {"test": "node t"}}'}, ["t.js"], ["npm test --silent"]),
    ("fix", {"package.json": "[]"}, ["a.test.js"], ["node --test"]),
    ("fix", {}, ["test.js"], ["node test.js"]),
]  # fmt: skip


@each_row(("task", "files", "paths", "commands"), COMMANDS)
def test_the_check_is_named_in_the_task_or_is_the_test_suite(
    task: str, files: dict[str, str], paths: list[str], commands: list[str]
):
    assert check_commands(task, files, paths) == commands


EXAMPLES = [
    ("double(3) == 6, and more", "double(3)", "6"),
    ("`double(3)` should return `[1, [2]]`.", "double(3)", "[1, [2]]"),
    ("double(3) should be 2 but it returns 1", "double(3)", "2"),
    ("double(3) returns 5", "", ""),
    ("double(3) returns True, but 3 is odd", "double(3)", "False"),
    ("double(3) returns True. Keep that.", "", ""),
    ("double(3) gives 1:1:1 but should give 1:01:01.", "double(3)", '"1:01:01"'),
    ("double([]) throws. It should return 0.", "double([])", "0"),
    ("double(2) should be about 9.1", "", ""),
    ("double(2) should be empty", "", ""),
    ("double(x) == 6", "", ""),
    ("triple(1) == 3", "", ""),
    ('half("a", 2) gives "b".', 'half("a", 2)', '"b"'),
]


@each_row(("task", "call", "value"), EXAMPLES)
def test_an_example_of_the_task_becomes_a_check(task: str, call: str, value: str):
    before = {"pkg/calc.py": "def double(x):\n    return x\n"}
    after = {"pkg/calc.py": before["pkg/calc.py"] + "def half(x):\n    return x\n"}
    name, got = call.partition("(")[0], "str(got)" if ":" in value else "got"
    program = f"from pkg.calc import {name}\ngot = {call}\nassert {got} == {value}, got"
    assert example_checks(task, after, before) == ([f"python3 -c '{program}'"] if call else [])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("n.js", "exports.inc = (x) => x + 1;\n"),
        ("lib/n.mjs", "export function inc(x) { return x + 1; }\n"),
    ],
)
@pytest.mark.parametrize(("value", "code"), [("2", 0), ("3", 1)])
def test_an_example_in_javascript_runs(tmp_path: Path, path: str, text: str, value: str, code: int):
    (check,) = example_checks(f"inc(1) === {value}", {path: text})
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    assert subprocess.run(check, shell=True, cwd=tmp_path, capture_output=True).returncode == code


@each_row("path", ['a");process.exit();(".js', "a\n.js", "a'b.js", "a b.js", "a;import os.py"])
def test_the_name_of_a_file_is_never_part_of_a_program(path: str):
    text = "exports.inc = (x) => x + 1;\n" if path.endswith(".js") else "def inc(x): return x\n"
    assert example_checks("inc(1) === 2", {path: text}) == []


PRINTS = [
    ("`node a.js` prints [1]", "[1]"),
    ("`node a.js` should still print Hello World", "Hello World"),
    ("`node a.js` prints 1 instead of 2", ""),
    ("run `node a.js`. It prints 1", ""),
    ("`node b.js` prints 1", ""),
]


@each_row(("task", "output"), PRINTS)
def test_the_expected_output_follows_the_command(task: str, output: str):
    assert expected_output(task, "node a.js") == output


def test_a_failed_example_says_what_is_and_what_should_be(tmp_path: Path):
    text = "def double(x):\n    return x\n"
    (check,) = example_checks("double(3) should be 6", {"calc.py": text})
    (tmp_path / "calc.py").write_text(text)
    done = subprocess.run(check, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert failure(check, done.stderr) == "double(3) should be 6 and is 3."
    text = "exports.inc = (x) => `${x}`;\n"
    (check,) = example_checks("inc(1) === 2", {"n.js": text})
    (tmp_path / "n.js").write_text(text)
    done = subprocess.run(check, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert failure(check, done.stderr) == "inc(1) should be 2 and is '1'."
    assert failure(check, "x\nTypeError: no\n") == "inc(1) should be 2 and fails (TypeError: no)."


def test_a_check_that_no_edit_can_pass_is_recognised():
    assert is_unusable("/usr/bin/python3: No module named pytest")
    assert not is_unusable("AssertionError: 1 != 2")


def test_the_line_that_says_most_is_kept_for_the_next_attempt():
    assert (
        last_words("Traceback\n  x\nValueError: no\n\n-----\nRan 1 test\nFAILED")
        == "ValueError: no"
    )
    assert last_words("") == "it failed without a word"
