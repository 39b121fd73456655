"""Checks and formatters of the settings: their form, and what a check says that is new."""

import shlex

import pytest

from rookery.core.facts import CheckRun
from rookery.diagnostics.configured_commands import for_file, new_failures, parse_file_command
from support.each_row import each_row


@each_row(
    ("entry", "path", "fits"),
    [
        ("*.py: ruff format {file}", "src/a.py", True),
        ("*.py: ruff format {file}", "src/a.pyi", False),
        ("*.ts *.tsx: prettier --write {file}", "web/a.tsx", True),
        ("/src/**: fmt", "src/deep/a.c", True),
        ("/src/**: fmt", "lib/src/a.c", False),
    ],
)
def test_a_formatter_is_for_the_files_that_fit_its_patterns(entry: str, path: str, fits: bool):
    assert parse_file_command(entry).fits(path) is fits


@each_row("entry", ["ruff format", "*.py:", ": ruff", "*.py"])
def test_an_entry_without_pattern_or_command_is_refused(entry: str):
    with pytest.raises(ValueError, match="PATTERN: COMMAND"):
        parse_file_command(entry)


@each_row("path", ["a b.py", "$(id).py", "it's.py", "-rf", "a;b.py"])
def test_a_file_name_stays_one_word_of_the_command(path: str):
    words = shlex.split(for_file("fmt {file} --quiet", path))
    assert words == ["fmt", path if path != "-rf" else "./-rf", "--quiet"]


def failed(output: str) -> CheckRun:
    return CheckRun(command="check", state="failed", output=output)


PASSED = CheckRun(command="check", state="passed")
NOT_RUN = CheckRun(command="check", state="not_run", output="You said no.")


@each_row(
    ("before", "after", "new"),
    [
        pytest.param(PASSED, PASSED, "", id="passes"),
        pytest.param(PASSED, failed("a.py:1: no"), "a.py:1: no", id="fails"),
        pytest.param(failed("a.py:1: no"), failed("a.py:7: no"), "", id="failed before"),
        pytest.param(failed("1 failed in 0.3s"), failed("1 failed in 12s"), "", id="times"),
        pytest.param(
            failed("a: no\n2 errors"), failed("a: no\nb: no\n3 errors"), "b: no", id="one more"
        ),
        pytest.param(failed("a: no"), failed("a: no\na: no"), "a: no", id="once more"),
        pytest.param(failed("a: no"), PASSED, "", id="repaired"),
        pytest.param(NOT_RUN, failed("a: no"), "", id="not known before"),
        pytest.param(None, failed("a: no"), "", id="not run before"),
        pytest.param(PASSED, NOT_RUN, "", id="not run after"),
    ],
)
def test_only_new_failures_of_a_check_are_blamed_on_the_work(
    before: CheckRun | None, after: CheckRun, new: str
):
    assert new_failures(before, after) == new
