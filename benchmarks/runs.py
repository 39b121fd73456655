"""One run of rookery or of the bare loop, in its own workspace, measured from outside."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from support.spread_folders import spread_folders

HERE = Path(__file__).parent
ROOKERY = [str(Path(sys.executable).with_name("rookery"))]
MIB = 1024 * 1024
PROMPT = "Do the work."
OF_OTHERS = ("PYTHON", "ROOKERY_")


class Cost(Struct, frozen=True, kw_only=True):
    """Resources that one process used. Memory is its peak in MiB."""

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
        flags = ["-p", "-y", "--provider", "openai", "-m", "bench", "--output-format", "text"]
        run = self._run(case, lambda url: [*ROOKERY, *flags, "--base-url", url, PROMPT])
        if not self._opening.exists():
            self._opening.write_text(run.first_request, encoding="utf-8")
        return run

    def bare(self, case: str) -> Run:
        """Run the bare loop with rookery's first request, so rookery has to run before it."""
        loop = [sys.executable, str(HERE / "bare_loop.py")]
        return self._run(case, lambda url: [*loop, url, str(self._opening)])

    def _run(self, case: str, command: Callable[[str], list[str]]) -> Run:
        name = f"{case}/{next(self._numbers)}"
        workspace = self._folder / "workspaces" / name
        workspace.mkdir(parents=True)
        for path, text in self._files.items():
            (workspace / path).write_text(text, encoding="utf-8")
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
    # without variables that change how Python or rookery run
    usual = {name: os.environ[name] for name in os.environ if not name.startswith(OF_OTHERS)}
    environment = {**usual, "ROOKERY_HOME": str(home)}
    log = home.with_name("output.log")
    with log.open("wb") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {log.read_text(errors='replace')[-2000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(
        seconds=seconds,
        cpu=usage.ru_utime + usage.ru_stime,
        memory=usage.ru_maxrss * unit / MIB,
    )
