"""Runs of rookery and of the bare loop, each in its own workspace, measured from outside."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

from msgspec import Struct

from support.spread_folders import spread_folders

HERE = Path(__file__).parent
ROOKERY = [str(Path(sys.executable).with_name("rookery"))]
MIB = 1024 * 1024
PROMPT = "Do the work."
OF_OTHERS = ("PYTHON", "ROOKERY_")
LOOK_SECONDS = 0.03
Watch: TypeAlias = Callable[[Sequence[int]], object]
"""Follows processes until the first of them has ended."""


class Cost(Struct, frozen=True, kw_only=True):
    """Resources that processes used. Memory is the peak of the largest in MiB."""

    seconds: float
    cpu: float
    memory: float


class Run(Struct, frozen=True, kw_only=True):
    cost: Cost
    workspace: Path
    to_request: float
    """Seconds from process start to the first request."""
    turns: tuple[float, ...]
    """Seconds between consecutive requests."""
    sizes: tuple[int, ...]
    """Bytes of each request."""
    first_request: str

    def files(self) -> dict[str, bytes]:
        """The files in the workspace after the run."""
        return {
            str(path.relative_to(self.workspace)): path.read_bytes()
            for path in self.workspace.rglob("*")
            if path.is_file()
        }


class Model:
    """The model server and its recorded requests."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin
        assert process.stdout
        self._asking: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout
        self._url = self._answers.readline().strip()

    def url(self, run: str) -> str:
        return f"{self._url}/{run}"

    def seen(self, run: str) -> dict[str, Any]:
        self._asking.write(f"{run}\n")
        self._asking.flush()
        seen: dict[str, Any] = json.loads(self._answers.readline())
        return seen


@contextmanager
def serving(*cases: str) -> Iterator[Model]:
    """Serve these cases while the context is open."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "model_server.py"), *cases],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Model(process)


class Track:
    """A folder with rookery's home and a workspace for each run."""

    def __init__(self, folder: Path, model: Model, files: dict[str, str]) -> None:
        spread_folders(folder)  # so that what was deleted before does not slow down a run
        self._folder = folder
        self._model = model
        self._files = files
        self._numbers = itertools.count()
        self._opening = folder / "opening.json"
        self.home = folder / "home"

    def rookery(self, case: str) -> Run:
        run = self._run(case, self._rookery)
        if not self._opening.exists():
            self._opening.write_text(run.first_request, encoding="utf-8")
        return run

    def bare(self, case: str) -> Run:
        """Run the bare loop with rookery's first request, so rookery has to run before it."""
        return self._run(case, self._bare_loop)

    def rookery_at_once(self, case: str, count: int, *, watch: Watch = lambda pids: None) -> Cost:
        """Run rookery so many times at once. The runs are watched until the first one ends."""
        places = [self._place(case) for _ in range(count)]
        commands = [(self._rookery(self._model.url(name)), place) for name, place in places]
        return run_at_once(commands, home=self.home, watch=watch)

    def hosts(self, case: str, count: int, *, watch: Watch = lambda pids: None) -> Cost:
        """Run so many hosts in one process. It is watched until it ends."""
        places = [self._place(case) for _ in range(count)]
        words = [word for name, folder in places for word in (self._model.url(name), str(folder))]
        command = [sys.executable, str(HERE / "hosts.py"), *words]
        return run_at_once([(command, self._folder)], home=self.home, watch=watch)

    def bare_at_once(self, case: str, count: int, *, watch: Watch = lambda pids: None) -> Cost:
        """Run so many bare loops at the same time, each in a process."""
        places = [self._place(case) for _ in range(count)]
        commands = [(self._bare_loop(self._model.url(name)), place) for name, place in places]
        return run_at_once(commands, home=self.home, watch=watch)

    def _rookery(self, url: str) -> list[str]:
        flags = ["-p", "-y", "--provider", "openai", "-m", "bench", "--output-format", "text"]
        return [*ROOKERY, *flags, "--base-url", url, PROMPT]

    def _bare_loop(self, url: str) -> list[str]:
        return [sys.executable, str(HERE / "bare_loop.py"), url, str(self._opening)]

    def _place(self, case: str) -> tuple[str, Path]:
        """A new workspace, and the name of the run in it."""
        name = f"{case}/{next(self._numbers)}"
        workspace = self._folder / "workspaces" / name
        workspace.mkdir(parents=True)
        for path, text in self._files.items():
            (workspace / path).write_text(text, encoding="utf-8")
        return name, workspace

    def _run(self, case: str, command: Callable[[str], list[str]]) -> Run:
        name, workspace = self._place(case)
        began = time.monotonic()
        cost = run_measured(command(self._model.url(name)), cwd=workspace, home=self.home)
        seen = self._model.seen(name)
        arrivals: list[float] = seen["arrivals"]
        return Run(
            cost=cost,
            workspace=workspace,
            to_request=arrivals[0] - began,
            turns=tuple(later - sooner for sooner, later in itertools.pairwise(arrivals)),
            sizes=tuple(seen["sizes"]),
            first_request=seen["first"],
        )


def run_measured(command: Sequence[str], *, cwd: Path, home: Path) -> Cost:
    """Run a command to its end. Raises `RuntimeError` with its output if it fails."""
    return run_at_once([(command, cwd)], home=home)


def run_at_once(
    commands: Sequence[tuple[Sequence[str], Path]],
    *,
    home: Path,
    watch: Watch = lambda pids: None,
) -> Cost:
    """Run commands at the same time to their ends, each in its folder. Raises `RuntimeError` with
    the output if one fails."""
    # without variables that change how Python or rookery run
    usual = {name: os.environ[name] for name in os.environ if not name.startswith(OF_OTHERS)}
    environment = {**usual, "ROOKERY_HOME": str(home)}
    log = home.with_name("output.log")
    with log.open("wb") as output:
        began = time.monotonic()
        processes = [
            subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            for command, cwd in commands
        ]
        watch([process.pid for process in processes])
        ends = [os.wait4(process.pid, 0) for process in processes]
        seconds = time.monotonic() - began
    for process, (_, status, _) in zip(processes, ends, strict=True):
        process.returncode = os.waitstatus_to_exitcode(status)
    if any(process.returncode for process in processes):
        program = commands[0][0][0]
        raise RuntimeError(f"{program} failed: {log.read_text(errors='replace')[-2000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(
        seconds=seconds,
        cpu=sum(usage.ru_utime + usage.ru_stime for _, _, usage in ends),
        memory=max(usage.ru_maxrss for _, _, usage in ends) * unit / MIB,
    )


def most_memory(run: Callable[[Watch], object]) -> float:
    """The most memory in MiB that processes and all their descendants have in nine of ten looks.
    Memory that they share counts once, but twice while a process is being started: so the highest
    tenth is left out. 0 where there is no /proc."""
    found = [0.0]

    def watch(pids: Sequence[int]) -> None:
        while all(os.path.exists(f"/proc/{pid}/exe") for pid in pids):  # gone once it has ended
            each = chain.from_iterable(map(_family, pids))
            found.append(sum(map(_memory, each)))
            time.sleep(LOOK_SECONDS)

    run(watch)
    return sorted(found)[len(found) * 9 // 10]


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in file.read_text().split():
                yield from _family(int(child))


def _memory(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
