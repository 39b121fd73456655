"""Results of an evaluation: the file that makes it resumable, and the tables for people."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import msgspec
from trials import CRASH, TIMEOUT, Trial, Usage

HEAD = ("task", "kind", "result", "requests", "tokens in", "tokens out", "seconds")
COMPARED = ("task", "before", "after", "", "requests", "seconds")


def read_trials(file: Path) -> list[Trial]:
    """The finished trials. A line that was cut off when the program was killed is left out."""
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")
    return [msgspec.json.decode(line, type=Trial) for line in lines[:-1] if line]


def add_trial(file: Path, trial: Trial) -> None:
    whole = file.read_bytes() if file.exists() else b""
    with file.open("ab") as opened:
        if whole and not whole.endswith(b"\n"):
            opened.truncate(whole.rfind(b"\n") + 1)
        opened.write(msgspec.json.encode(trial) + b"\n")


def summary(trials: Sequence[Trial]) -> str:
    """A row for each task, then totals."""
    rows = [
        (
            name,
            runs[0].kind,
            outcome(runs),
            *_usage_cells(runs),
            f"{_mean(run.seconds for run in runs):.0f}",
        )
        for name, runs in by_task(trials).items()
    ]
    return "\n".join([table([HEAD, *rows], right=4), "", *_totals(trials)])


def comparison(before: Sequence[Trial], after: Sequence[Trial]) -> str:
    """A row for each task of either side, then the totals of both."""
    old, new = by_task(before), by_task(after)
    rows = [_compared(name, old.get(name, []), new.get(name, [])) for name in sorted({*old, *new})]
    lines = [table([COMPARED, *rows], right=2), ""]
    for title, trials in (("before", before), ("after", after)):
        lines += [f"{title}:", *(f"  {line}" for line in _totals(trials))]
    return "\n".join(lines)


def by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in sorted(trials, key=lambda trial: (trial.task, trial.round)):
        groups[trial.task].append(trial)
    return groups


def outcome(runs: Sequence[Trial]) -> str:
    """Such as `solved`, `timeout` or `1/3 solved, wrong result`."""
    if not runs:
        return "-"
    failures = list(dict.fromkeys(run.failure for run in runs if not run.solved))
    solved = sum(run.solved for run in runs)
    if len(runs) == 1:
        return failures[0] if failures else "solved"
    return ", ".join([f"{solved}/{len(runs)} solved", *failures])


def table(rows: Sequence[Sequence[str]], *, right: int) -> str:
    """Align columns; the last `right` of them to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = len(widths) - right
    lines = [
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def _compared(name: str, old: Sequence[Trial], new: Sequence[Trial]) -> tuple[str, ...]:
    change = _share(new) - _share(old) if old and new else 0
    sign = "better" if change > 0 else "worse" if change < 0 else ""
    pairs = [
        f"{cell(old)} → {cell(new)}"
        for cell in (
            lambda runs: _usage_cells(runs)[0],
            lambda runs: f"{_mean(run.seconds for run in runs):.0f}" if runs else "-",
        )
    ]
    return (name, outcome(old), outcome(new), sign, *pairs)


def _totals(trials: Sequence[Trial]) -> list[str]:
    if not trials:
        return ["No results."]
    solved = sum(trial.solved for trial in trials)
    usage = [trial.usage for trial in trials if trial.usage]
    lines = [f"solved: {solved} of {len(trials)} ({100 * solved / len(trials):.0f} %)"]
    if usage:
        total = Usage(
            requests=sum(each.requests for each in usage),
            tokens_in=sum(each.tokens_in for each in usage),
            tokens_out=sum(each.tokens_out for each in usage),
            cached=sum(each.cached for each in usage),
        )
        lines.append(
            f"requests: {total.requests:,}; tokens in: {total.tokens_in:,}"
            f" ({total.cached:,} cached); tokens out: {total.tokens_out:,}"
        )
    seconds = [trial.seconds for trial in trials]
    lines.append(f"wall time: {sum(seconds):,.0f} s; median per task: {median(seconds):.1f} s")
    failures = Counter(trial.failure for trial in trials if not trial.solved)
    lines.append(f"failures: {_counted(failures)}")
    bad = Counter(trial.ending for trial in trials if trial.ending in (TIMEOUT, CRASH))
    lines.append(f"timeouts and crashes, solved or not: {_counted(bad)}")
    kinds = defaultdict(list)
    for trial in trials:
        kinds[trial.kind].append(trial.solved)
    shares = (f"{kind} {sum(each)}/{len(each)}" for kind, each in sorted(kinds.items()))
    lines.append(f"by kind: {', '.join(shares)}")
    return lines


def _counted(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in ordered) or "none"


def _usage_cells(runs: Sequence[Trial]) -> tuple[str, str, str]:
    """The means of requests, tokens in and tokens out; dashes if they are not known."""
    known = [run.usage for run in runs if run.usage]
    if not known:
        return ("-", "-", "-")
    requests, tokens_in, tokens_out = zip(
        *((each.requests, each.tokens_in, each.tokens_out) for each in known), strict=True
    )
    return (f"{_mean(requests):.0f}", f"{_mean(tokens_in):.0f}", f"{_mean(tokens_out):.0f}")


def _share(runs: Sequence[Trial]) -> float:
    return _mean(run.solved for run in runs)


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
