"""Compare rookery with a bare loop that does the same work: `make bench`.

    python benchmarks/run.py [--peer AGENT=PROGRAM …] [--draw FILE.svg]

The two run alternately, so that other load on the machine slows both. Times are medians; only their
ratio can be compared across machines. Other agents are run only if they are named.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median

from msgspec import Struct

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from cases import FILES, STEPS
from chart import Bar, draw
from peers import PEERS, PeerRun, run_peer
from runs import ROOKERY, Cost, Run, Track, most_memory, run_measured, serving

ROUNDS = 5
QUICK_ROUNDS = 15
CHARACTERS_PER_TOKEN = 4
MOST_MEMORY = 80
HOSTS = 8
MOST_OVER_BARE, MOST_MEMORY_OF_HOSTS = 3.0, 110
MOST_RUNS_OVER_BARE, MOST_MEMORY_OF_RUNS = 5.0, 400
PEER_TURNS = 30
MEASURED = ("start", "30-turns", "200-turns", "long-text", "long-arguments")
HEAD = ("what", "rookery", "bare", "ratio", "by CPU", "wanted", "")


class Row(Struct, frozen=True, kw_only=True):
    what: str
    rookery: str
    bare: str = ""
    ratio: str = ""
    by_cpu: str = ""
    wanted: str = ""
    met: bool | None = None
    over: float = 0.0
    """Our time over the bare loop's, to be drawn."""
    most: float = 0.0

    @property
    def bar(self) -> Bar:
        return Bar(self.what, self.over, f"{self.over:.2f} ×", self.most)

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = {True: "ok", False: "over", None: ""}[self.met]
        return self.what, self.rookery, self.bare, self.ratio, self.by_cpu, self.wanted, verdict


class Pairs(Struct, frozen=True):
    """The runs of one case: `rookery[n]` ran right after `bare[n]`."""

    bare: Sequence[Run]
    rookery: Sequence[Run]


def main() -> None:
    given = _arguments()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, serving(*MEASURED) as model:
        track = Track(Path(folder), model, FILES)
        track.rookery("start")  # creates the home, and warms the caches
        track.bare("start")
        rows = measure(track)
        sync = sync_seconds(Path(folder))
    print(table([HEAD, *(row.cells for row in rows)]))
    if given.peer:
        print(f"\n{table(peer_table(dict(given.peer)))}")
    where = f"{machine()}; one fdatasync takes {sync * 1000:.2f} ms"
    print(f"\n{where}.")
    if given.draw:
        bars = [row.bar for row in rows if row.over]
        draw(given.draw, "Time of rookery over that of a bare loop", where, bars)
    print(f"Measured in {time.monotonic() - began:.0f} s.")


def measure(track: Track) -> list[Row]:
    version = version_row(track.home)
    start = pairs(track, "start", QUICK_ROUNDS)
    short, long, text, arguments = (pairs(track, case) for case in MEASURED[1:])
    hosts = at_once_rows(track, "30-turns")
    return [
        version,
        start_row(start),
        case_row("30 turns", short, most=4),
        *turn_rows(short),
        case_row("200 turns", long),
        *turn_rows(long),
        *step_rows(long),
        case_row("2 MB of text in 20,000 chunks", text, most=1.5),
        after_start_row(text),
        case_row("1 MB of arguments in 10,000 chunks", arguments, most=1.5),
        after_start_row(arguments),
        *hosts,
        memory_row([start, short, long, text, arguments]),
        size_row(start.rookery[0]),
    ]


def pairs(track: Track, case: str, rounds: int = ROUNDS) -> Pairs:
    both = [(track.bare(case), track.rookery(case)) for _ in range(rounds)]
    return Pairs([bare for bare, _ in both], [rookery for _, rookery in both])


def version_row(home: Path) -> Row:
    def cost(command: list[str]) -> Cost:
        return run_measured(command, cwd=home, home=home)

    nothing, version = [sys.executable, "-c", "pass"], [*ROOKERY, "--version"]
    both = [(cost(nothing), cost(version)) for _ in range(QUICK_ROUNDS)]
    bare = median(cost.seconds for cost, _ in both)
    rookery = median(cost.seconds for _, cost in both)
    return Row(
        what="`--version`, to `python -c pass`",
        rookery=_ms(rookery),
        bare=_ms(bare),
        ratio=f"{rookery / bare:.2f}",
        by_cpu=_ratio([cost.cpu for _, cost in both], [cost.cpu for cost, _ in both]),
        wanted="1.6, 80 ms",
        met=rookery / bare <= 1.6 and rookery < 0.08,
    )


def start_row(runs: Pairs) -> Row:
    rookery, bare = _medians(runs, lambda run: run.to_request)
    return Row(
        what="start to first request",
        rookery=_ms(rookery),
        bare=_ms(bare),
        ratio=f"{rookery / bare:.2f}",
        over=rookery / bare,
        wanted="350 ms",
        met=rookery < 0.35,
    )


def case_row(what: str, runs: Pairs, *, most: float | None = None) -> Row:
    rookery, bare = _medians(runs, lambda run: run.cost.seconds)
    return Row(
        what=what,
        rookery=_ms(rookery),
        bare=_ms(bare),
        ratio=f"{rookery / bare:.2f}",
        by_cpu=_cpu_ratio(runs),
        over=rookery / bare,
        most=most or 0.0,
        wanted=f"{most:g}" if most else "",
        met=rookery / bare <= most if most else None,
    )


def turn_rows(runs: Pairs) -> list[Row]:
    """The first and the last third of the turns: requests grow with the conversation."""
    count = len(runs.rookery[0].turns)
    third = count // 3
    first, last = range(third), range(count - third, count)
    (ours, bare), (ours_later, bare_later) = _turn(runs, first), _turn(runs, last)
    grown = Row(
        what="… and how it grows, last to first",
        rookery=f"{ours_later / ours:.2f}",
        bare=f"{bare_later / bare:.2f}",
    )
    return [_turn_row(runs, first, "first"), _turn_row(runs, last, "last"), grown]


def step_rows(runs: Pairs) -> list[Row]:
    count = len(runs.rookery[0].turns)
    rows = []
    for place, step in enumerate(STEPS):
        rookery, bare = _turn(runs, range(place, count, len(STEPS)))
        what = f"… a turn after {step}"
        ratio = f"{rookery / bare:.2f}"
        rows.append(Row(what=what, rookery=_ms(rookery), bare=_ms(bare), ratio=ratio))
    return rows


def _turn(runs: Pairs, turns: range) -> tuple[float, float]:
    ours, bare = (
        mean(median(run.turns[turn] for run in side) for turn in turns)
        for side in (runs.rookery, runs.bare)
    )
    return ours, bare


def _turn_row(runs: Pairs, turns: range, which: str) -> Row:
    rookery, bare = _turn(runs, turns)
    size = mean(runs.rookery[0].sizes[turn + 1] for turn in turns)
    return Row(
        what=f"… a turn, {which} {len(turns)}, sending {size / 1000:.0f} kB",
        rookery=_ms(rookery),
        bare=_ms(bare),
        ratio=f"{rookery / bare:.2f}",
    )


def after_start_row(runs: Pairs) -> Row:
    rookery, bare = _medians(runs, lambda run: run.cost.seconds - run.to_request)
    return Row(
        what="… without the start",
        rookery=_ms(rookery),
        bare=_ms(bare),
        ratio=f"{rookery / bare:.2f}",
    )


def memory_row(cases: Sequence[Pairs]) -> Row:
    rookery = max(run.cost.memory for runs in cases for run in runs.rookery)
    bare = max(run.cost.memory for runs in cases for run in runs.bare)
    return Row(
        what="most memory in use",
        rookery=f"{rookery:.0f} MiB",
        bare=f"{bare:.0f} MiB",
        ratio=f"{rookery / bare:.2f}",
        wanted=f"{MOST_MEMORY} MiB",
        met=rookery < MOST_MEMORY,
    )


def at_once_rows(track: Track, case: str) -> list[Row]:
    """Hosts in one process, and as many runs, compared with as many bare loops at the same time."""
    rounds = [
        (
            track.bare_at_once(case, HOSTS),
            track.hosts(case, HOSTS),
            track.rookery_at_once(case, HOSTS),
        )
        for _ in range(ROUNDS)
    ]
    bare, hosts, runs = zip(*rounds, strict=True)
    of_bare = most_memory(lambda watch: track.bare_at_once(case, HOSTS, watch=watch))
    of_hosts = most_memory(lambda watch: track.hosts(case, HOSTS, watch=watch))
    of_runs = most_memory(lambda watch: track.rookery_at_once(case, HOSTS, watch=watch))
    return [
        _at_once_row(
            f"{HOSTS} sessions in one process, 30 turns each", hosts, bare, MOST_OVER_BARE
        ),
        _all_memory_row(of_hosts, of_bare, MOST_MEMORY_OF_HOSTS),
        _at_once_row(f"{HOSTS} runs at once, 30 turns each", runs, bare, MOST_RUNS_OVER_BARE),
        _all_memory_row(of_runs, of_bare, MOST_MEMORY_OF_RUNS),
    ]


def _at_once_row(what: str, ours: Sequence[Cost], bare: Sequence[Cost], most: float) -> Row:
    rookery, loops = (median(cost.seconds for cost in costs) for costs in (ours, bare))
    return Row(
        what=what,
        rookery=_ms(rookery),
        bare=_ms(loops),
        ratio=f"{rookery / loops:.2f}",
        by_cpu=_ratio([cost.cpu for cost in ours], [cost.cpu for cost in bare]),
        over=rookery / loops,
        most=most,
        wanted=f"{most:g}",
        met=rookery / loops <= most,
    )


def _all_memory_row(rookery: float, bare: float, most: int) -> Row:
    return Row(
        what="… and their memory, with all programs",
        rookery=f"{rookery:.0f} MiB",
        bare=f"{bare:.0f} MiB",
        ratio=f"{rookery / bare:.2f}" if bare else "",
        wanted=f"{most} MiB",
        met=rookery <= most,
    )


def size_row(run: Run) -> Row:
    tools = len(json.loads(run.first_request)["tools"])
    tokens = len(run.first_request) / CHARACTERS_PER_TOKEN
    return Row(
        what=f"first request, with all {tools} tools",
        rookery=f"{run.sizes[0]:,} bytes, about {tokens:,.0f} tokens",
    )


def peer_table(programs: Mapping[str, str]) -> list[Sequence[str]]:
    """Other agents and rookery by turns, each with the same shell commands."""
    programs = {"rookery": ROOKERY[0], **programs}
    runs: dict[str, list[PeerRun]] = {name: [] for name in programs}
    cases = {name: f"{name}@{PEER_TURNS}" for name in programs}
    with tempfile.TemporaryDirectory() as place, serving(*cases.values()) as model:
        for number in range(ROUNDS):
            for name, program in programs.items():
                folder = Path(place, name, str(number))
                given = folder, model, FILES
                runs[name].append(run_peer(name, program, cases[name], str(number), *given))
    rows = [
        (
            name,
            _ms(median(run.to_request for run in done)),
            _ms(median(turn for run in done for turn in run.turns)),
            _ms(median(run.cost.seconds for run in done)),
            _ms(median(run.cost.cpu for run in done)),
            f"{max(run.cost.memory for run in done):.0f} MiB",
        )
        for name, done in runs.items()
    ]
    turns = f"{PEER_TURNS} shell commands"
    return [("agent", "to first request", "a turn", turns, "CPU", "largest process"), *rows]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare rookery with a bare loop.")
    parser.add_argument("--peer", action="append", default=[], type=_peer, metavar="AGENT=PROGRAM")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg")
    return parser.parse_args()


def _peer(given: str) -> tuple[str, str]:
    name, _, program = given.partition("=")
    if name not in PEERS:
        raise argparse.ArgumentTypeError(f"one of {', '.join(PEERS)}, not {name}")
    return name, program or name


def sync_seconds(folder: Path) -> float:
    """Seconds to make one line durable, on top of writing it."""
    times: list[float] = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"a line\n")
            began = time.monotonic()
            os.fsync(file.fileno())
            times.append(time.monotonic() - began)
    return median(times)


def machine() -> str:
    """The machine, the day and the version that was measured."""
    system = f"{platform.system()} on {platform.machine()}"
    here = f"{os.cpu_count()} cores, Python {platform.python_version()}, {system}"
    return f"{here}, {time.strftime('%Y-%m-%d')}, commit {_commit()}"


def _commit() -> str:
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table for docs/figures.md."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = (
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    )
    rule = f"| {' | '.join('-' * width for width in widths)} |"
    return "\n".join([head, rule, *body])


def _medians(runs: Pairs, of: Callable[[Run], float]) -> tuple[float, float]:
    return median(map(of, runs.rookery)), median(map(of, runs.bare))


def _cpu_ratio(runs: Pairs) -> str:
    return _ratio([run.cost.cpu for run in runs.rookery], [run.cost.cpu for run in runs.bare])


def _ratio(rookery: Sequence[float], bare: Sequence[float]) -> str:
    return f"{median(rookery) / median(bare):.2f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    main()
