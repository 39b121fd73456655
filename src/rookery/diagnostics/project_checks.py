"""What the project's checks say after the work that they did not say before it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from rookery.core.facts import CheckRun
from rookery.engine.ports.checks import CheckResult

LONGEST_OUTPUT = 4_000
MOST_LINES = 30
LONGEST_LINE = 300
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def as_run(command: str, result: CheckResult, seconds: float) -> CheckRun:
    """The result as it is recorded."""
    if result.exit_code is None:
        return CheckRun(command=command, state="not_run", output="\n".join(result.tail))
    if result.ok:
        return CheckRun(command=command, state="passed")
    late = [f"It was stopped after {seconds:g} s."] if result.timed_out else []
    lines = [_COLOURS.sub("", line)[:LONGEST_LINE] for line in (*result.tail, *late)]
    return CheckRun(command=command, state="failed", output="\n".join(lines)[-LONGEST_OUTPUT:])


def new_failures(before: CheckRun | None, after: CheckRun) -> str:
    """What fails now and did not before; empty if nothing does.

    A check that failed before may fail with the same lines again. Numbers are not compared, since
    lines move and times differ.
    """
    if after.state != "failed" or before is None or before.state == "not_run":
        return ""
    if before.state == "passed":
        return after.output
    known = Counter(map(_without_numbers, before.output.splitlines()))
    new: list[str] = []
    for line in after.output.splitlines():
        plain = _without_numbers(line)
        if known[plain]:
            known[plain] -= 1
        elif plain.strip():
            new.append(line)
    return "\n".join(new[-MOST_LINES:])


def described(failures: Mapping[str, str], *, fresh: Sequence[str]) -> str:
    """The new failures by command, for the model. Those in `fresh` passed before."""
    parts = []
    for command, output in failures.items():
        what = "fails" if command in fresh else "failed before your edits, and now also says"
        parts.append(f"`{command}` {what}:\n{output}")
    return "\n\n".join(parts)


def _without_numbers(line: str) -> str:
    return _VARYING.sub("#", line)
