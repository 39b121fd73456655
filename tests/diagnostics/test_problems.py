"""Which problems are new, and how the model sees them."""

from typing import Any

import pytest

from rookery.diagnostics.problems import (
    Diagnostic,
    described_problems,
    new_problems,
    read_problems,
)
from support.each_row import each_row


def reported(line: int, message: str, **more: Any) -> dict[str, Any]:
    start = {"line": line, "character": 4}
    return {"range": {"start": start, "end": start}, "message": message, **more}


def found(text: str, *problems: tuple[int, str]) -> tuple[Diagnostic, ...]:
    return read_problems("a.py", [reported(line, message) for line, message in problems], text)


BEFORE = "x = one\ny = two\n"


@each_row(
    ("text", "problems", "new"),
    [
        pytest.param(BEFORE, [(0, "no one")], [], id="the same"),
        pytest.param("# new\n\nx = one\n", [(2, "no one")], [], id="moved"),
        pytest.param("x = one + 1\n", [(0, "no one")], [], id="its line was edited"),
        pytest.param(BEFORE, [(0, "no one"), (1, "no two")], ["no two"], id="another one"),
        pytest.param("x = one\nz = one\n", [(0, "no one"), (1, "no one")], ["no one"], id="twice"),
        pytest.param("y = two\n", [], [], id="solved"),
        pytest.param("y = two\n", [(0, "no two")], ["no two"], id="another instead"),
    ],
)
def test_a_problem_is_new_if_it_was_not_there_before(
    text: str, problems: list[tuple[int, str]], new: list[str]
):
    before = found(BEFORE, (0, "no one"))
    assert [each.message for each in new_problems(before, found(text, *problems))] == new


def test_of_two_equal_problems_the_one_on_a_new_line_is_new():
    before = found("f(one)\n", (0, "no one"))
    after = found("g(one)\nf(one)\n", (0, "no one"), (1, "no one"))
    assert [each.line for each in new_problems(before, after)] == [1]


@each_row(
    "report",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"message": "no range"}, id="no range"),
        pytest.param(reported(-1, "before the file"), id="before the file"),
        pytest.param(reported(0, "a hint", severity=4), id="a hint"),
        pytest.param({**reported(0, ""), "message": 7}, id="no text"),
    ],
)
def test_malformed_reports_and_hints_are_left_out(report: Any):
    assert read_problems("a.py", [report], "x\n") == ()


def test_a_problem_is_one_clean_line():
    (problem,) = read_problems(
        "a.py",
        [reported(2, "not\x1b[31m\n\n  here" + "!" * 400, code=2322, source="ts", severity=2)],
        None,
    )
    shown = str(problem)
    assert shown.startswith("a.py:3:5: warning: not [31m here!!")
    assert shown.endswith("!… [ts 2322]")


def test_many_problems_are_counted_instead_of_listed():
    many = found("", *((line, f"no {line}") for line in range(14)))
    other = read_problems("b.py", [reported(0, f"b {each}") for each in range(5)], None)
    lines = described_problems(many, {"b.py": other}).splitlines()
    assert lines[0] == "New problems:"
    assert lines[11:14] == [
        "and 4 more errors",
        "5 new errors in 1 other file:",
        "b.py:1:5: error: b 0",
    ]
    assert lines[-1] == "and 2 more errors"


def test_nothing_is_said_if_nothing_changed_and_little_if_problems_were_solved():
    assert described_problems((), {}) == ""
    assert described_problems((), {}, solved=2) == "2 problems fewer than before this edit."
