"""Measure rookery where there is much of everything: `python benchmarks/scale.py`.

Each place is measured once small and once large, by turns, with the same run in it: one request, or
one call and its result. Times are processor time of the run and its programs, medians of the
rounds; a call is what it costs above the run without it. "Grows" compares them with each other, and
belongs beside how much more there is.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from cases import FILES
from run import machine, table
from runs import ROOKERY, Cost, Model, Track, run_measured, serving
from sessions import write_session

ROUNDS = 3
FOLDERS = 20
HEAD = ("what", "in", "small", "large", "grows", "memory", "large", "bare")
FLAGS = ("-p", "-y", "--max-turns", "10000000", "--provider", "openai", "-m", "bench")
CASES = ("start", "one-list", "one-search", "one-command", "one-edit", "30-turns")
LEAST = 0.005
"""Seconds below which a difference says nothing."""


class Place(Struct, frozen=True):
    """A workspace and a home, with what makes them large."""

    workspace: Path
    home: Path


class Sizes(Struct, frozen=True, kw_only=True):
    files: int = 200_000
    commits: int = 20_000
    megabytes: int = 500
    events: int = 100_000
    sessions: int = 1_000


SMALL = Sizes(files=20, commits=1, megabytes=0, events=1_000, sessions=1)


class Row(Struct, frozen=True, kw_only=True):
    what: str
    where: str
    small: Sequence[Cost]
    large: Sequence[Cost]
    without: tuple[Sequence[Cost], Sequence[Cost]] | None = None
    """The runs without the call."""
    bare: float = 0.0

    @property
    def cells(self) -> tuple[str, ...]:
        small, large = _cpu(self.small), _cpu(self.large)
        if self.without:
            small -= _cpu(self.without[0])
            large -= _cpu(self.without[1])
        grows = f"{large / small:.1f}" if small > LEAST else ""
        memory = (
            f"{max(cost.memory for cost in each):.0f} MiB" for each in (self.small, self.large)
        )
        bare = f"{large / self.bare:.1f}" if self.bare else ""
        return self.what, self.where, _ms(small), _ms(large), grows, *memory, bare


class Scale:
    """Places of two sizes below one folder, and runs in them."""

    def __init__(self, folder: Path, model: Model, sizes: Sizes, rounds: int) -> None:
        self._folder = folder
        self._model = model
        self._sizes = sizes
        self._rounds = rounds
        self._runs = 0
        (folder / "sample").mkdir()
        track = Track(folder / "sample", model, FILES)
        self._sample_run = track.rookery("30-turns")
        self._bare = median(track.bare("start").cost.cpu for _ in range(rounds))
        (self._sample,) = (track.home / "data" / "tasks").glob(f"*/{'journal.jsonl'}")

    def rows(self) -> Iterator[Row]:
        yield from self._in_files()
        yield from self._in_one("commits", f"{self._sizes.commits:,} commits", self._commit)
        yield from self._in_one("big", f"a file of {self._sizes.megabytes} MB", self._fill)
        yield self._continued()
        yield self._listed()

    def _in_files(self) -> Iterator[Row]:
        where = f"{self._sizes.files:,} files"
        small, large = self._places("files", self._spread)
        start = self._pairs("start", small, large)
        yield self._row("start to end of one request", where, start, bare=self._bare)
        for case, what in (
            ("one-list", "listing all"),
            ("one-search", "searching all, no match"),
            ("one-edit", "an edit, with checkpoints"),
            ("one-command", "a command, with checkpoints of all"),
        ):
            self._pairs(case, small, large, rounds=1)  # the first checkpoint has to save all
            yield self._row(what, where, self._pairs(case, small, large), start)

    def _in_one(self, name: str, where: str, fill: Callable[[Path, Sizes], None]) -> Iterator[Row]:
        small, large = self._places(name, fill)
        start = self._pairs("start", small, large)
        yield self._row("start to end of one request", where, start, bare=self._bare)
        self._pairs("one-command", small, large, rounds=1)
        command = self._pairs("one-command", small, large)
        yield self._row("a command, with checkpoints of all", where, command, start)

    def _continued(self) -> Row:
        def session(workspace: Path, sizes: Sizes) -> None:
            home = workspace.with_name(f"{workspace.name}-home")
            folder = home / "data" / "tasks" / "aaaaaaaa-0000-4000-8000-000000000001"
            write_session(folder, self._sample.parent, sizes.events, workspace)

        small, large = self._places("events", session)
        self._pairs("start", small, large, "-c", rounds=1)  # makes the snapshot
        runs = self._pairs("start", small, large, "-c")
        return self._row("`-c` with one request", f"{self._sizes.events:,} events", runs)

    def _listed(self) -> Row:
        def sessions(workspace: Path, sizes: Sizes) -> None:
            tasks = workspace.with_name(f"{workspace.name}-home") / "data" / "tasks"
            for number in range(sizes.sessions):
                name = f"aaaaaaaa-0000-4000-8000-{number:012d}"
                write_session(tasks / name, self._sample.parent, 100, workspace)

        small, large = self._places("sessions", sessions)

        def list_sessions(place: Place) -> Cost:
            return run_measured([*ROOKERY, "list"], cwd=place.workspace, home=place.home)

        for place in (small, large):
            list_sessions(place)  # makes the index
        both = [(list_sessions(small), list_sessions(large)) for _ in range(self._rounds)]
        runs = [one for one, _ in both], [other for _, other in both]
        return self._row("listing sessions", f"{self._sizes.sessions:,} sessions", runs)

    def _places(self, name: str, fill: Callable[[Path, Sizes], None]) -> tuple[Place, Place]:
        return self._place(f"{name}-small", fill, SMALL), self._place(name, fill, self._sizes)

    def _place(self, name: str, fill: Callable[[Path, Sizes], None], sizes: Sizes) -> Place:
        workspace = self._folder / name
        workspace.mkdir()
        for path, text in FILES.items():
            (workspace / path).write_text(text, encoding="utf-8")
        fill(workspace, sizes)
        return Place(workspace, self._folder / f"{name}-home")

    def _pairs(
        self, case: str, small: Place, large: Place, *flags: str, rounds: int = 0
    ) -> tuple[list[Cost], list[Cost]]:
        both = [
            (self._run(case, small, flags), self._run(case, large, flags))
            for _ in range(rounds or self._rounds)
        ]
        return [one for one, _ in both], [other for _, other in both]

    def _run(self, case: str, place: Place, flags: Sequence[str]) -> Cost:
        self._runs += 1
        url = self._model.url(f"{case}/scale{self._runs}")
        command = [*ROOKERY, *FLAGS, *flags, "--base-url", url, "Do the work."]
        return run_measured(command, cwd=place.workspace, home=place.home)

    def _row(
        self,
        what: str,
        where: str,
        runs: tuple[Sequence[Cost], Sequence[Cost]],
        without: tuple[Sequence[Cost], Sequence[Cost]] | None = None,
        bare: float = 0.0,
    ) -> Row:
        small, large = runs
        return Row(what=what, where=where, small=small, large=large, without=without, bare=bare)

    def _spread(self, workspace: Path, sizes: Sizes) -> None:
        """Small files, each in a folder of its own, and those in a few others."""
        for number in range(sizes.files):
            folder = workspace / f"part{number % FOLDERS}" / f"area{number // 10}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"file{number}.py").write_text(f"def f{number}():\n    return {number}\n")

    def _commit(self, workspace: Path, sizes: Sizes) -> None:
        git = ["git", "-C", str(workspace)]
        subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], check=True)
        parts = [
            f"commit refs/heads/main\ncommitter a <a@b> {1_700_000_000 + number} +0000\n"
            f"data 2\nc\nM 100644 inline file{number % 50}.txt\ndata 8\n{number:07d}\n"
            for number in range(sizes.commits)
        ]
        given = "".join(parts).encode()
        subprocess.run([*git, "fast-import", "--quiet"], input=given, check=True)
        subprocess.run([*git, "reset", "--quiet", "--hard", "main"], check=True)

    def _fill(self, workspace: Path, sizes: Sizes) -> None:
        line = b"many words on one line of a very large file, again and again\n" * 16384
        with (workspace / "large.log").open("wb") as file:
            for _ in range(sizes.megabytes):
                file.write(line)


def measure(folder: Path, sizes: Sizes, rounds: int) -> list[Row]:
    with serving(*CASES) as model:
        return list(Scale(folder, model, sizes, rounds).rows())


def _cpu(costs: Sequence[Cost]) -> float:
    return median(cost.cpu for cost in costs)


def _ms(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def main() -> None:
    sizes = Sizes()
    if len(sys.argv) > 1:  # a part of it, in percent
        part = int(sys.argv[1]) / 100
        sizes = Sizes(
            files=int(sizes.files * part),
            commits=int(sizes.commits * part),
            megabytes=int(sizes.megabytes * part),
            events=int(sizes.events * part),
            sessions=int(sizes.sessions * part),
        )
    folder = Path(tempfile.mkdtemp())
    try:
        rows = measure(folder, sizes, ROUNDS)
    finally:
        shutil.rmtree(folder)
    print(table([HEAD, *(row.cells for row in rows)]))
    print(f"\n{machine()}.")


if __name__ == "__main__":
    main()
