"""A fleet of real worker processes, each with its own home, and a git remote."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rookery.core.facts import Event
from rookery.core.fleet_rows import FleetSession
from rookery.fleet.database import connect
from rookery.fleet.orders import Fleet, SessionOrder
from support.repositories import git
from support.warm_programs import Process, start_program
from support.worker_networks import WorkerNetwork

LEASE = "2"
"""Seconds, instead of ten."""
SECONDS = 120.0
FLEET_COMMAND = "from support.fleet_worker import run\nrun()"
"""A program for `warm_programs`."""
T = TypeVar("T")
KEY = "sk-fleet-secret-0123456789"


class Machine:
    """One worker with one slot, in its own process session: signals reach all its processes."""

    def __init__(
        self,
        folder: Path,
        name: str,
        address: str,
        script: Path,
        *options: str,
        killpoint: str = "",
        network: WorkerNetwork | None = None,
    ) -> None:
        self.name = name
        self.network = network
        home = folder / name
        (home / "config").mkdir(parents=True, exist_ok=True)
        (home / "config" / "settings.toml").write_text(
            f'provider = "scripted"\nmodel = "{script}"\n'
        )
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ROOKERY_")},
            "ROOKERY_HOME": str(home),
            "HOME": str(home),
            "ROOKERY_FLEET_DATABASE": network.address if network else address,
            "OPENAI_API_KEY": KEY,
            "ROOKERY_KILLPOINT": killpoint,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.log = home / "log"
        words = ["worker", "--name", name, "--slots", "1", "--lease", LEASE]
        words += ["--folder", str(home / "fleet"), "--local-repositories", *options]
        out, said = os.pipe()
        self._out = os.fdopen(out)
        with self.log.open("ab") as log, os.fdopen(said, "wb"):
            self._process = self._start(words, said, log.fileno())

    def _start(self, words: Sequence[str], output: int, errors: int) -> Process:
        code = FLEET_COMMAND
        if self.network and self.network.namespace:
            code = code.replace("run()", f"run({self.network.namespace!r})")
        return start_program(code, *words, output=output, errors=errors, **self.environ)

    def wait_until_ready(self) -> str:
        """Returns the name of its slot."""
        line = self._out.readline()
        assert line, self.log.read_text()
        return str(json.loads(line)["slot"])

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)

    def processes(self) -> list[int]:
        """Its slots."""
        worker = self._process.pid
        return [
            int(each) for each in Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
        ]

    def kill(self) -> None:
        """Kill all processes at once, as a power failure would."""
        self.signal(signal.SIGKILL)
        self._end()

    def _end(self) -> int:
        with self._out:
            return self._process.wait(SECONDS)

    def drain(self) -> int:
        self._process.terminate()
        return self._end()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        if not self.has_ended:
            self.signal(signal.SIGCONT)
            self.kill()
        self._out.close()
        if self.network:
            self.network.close()


Start: TypeAlias = Callable[..., Machine]
"""Starts a worker by its name and script, with more options of the command."""


def new_remote(folder: Path) -> Path:
    """A bare repository with one commit on main."""
    remote, work = folder / "remote.git", folder / "seed"
    work.mkdir(parents=True)
    git(work, "init", "--quiet", "--initial-branch=main")
    (work / "readme.txt").write_text("Read me.\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "First")
    git(folder, "clone", "--quiet", "--bare", str(work), str(remote))
    return remote


def until(condition: Callable[[], T]) -> T:
    """Poll the condition until it returns something, and return that."""
    patience = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < patience
        time.sleep(0.05)
    return found


def submit(address: str, session_id: str, remote: Path, **more: Any) -> None:
    with closing(Fleet(address)) as fleet:
        order = SessionOrder(session_id=session_id, text="Go", repo=str(remote), ref="main", **more)
        fleet.submit(order)


def events(address: str, session_id: str) -> list[Event]:
    with closing(Fleet(address)) as fleet:
        return fleet.events(session_id)


def pushed_files(address: str, session_id: str, remote: Path) -> dict[str, str]:
    """The files of the last checkpoint, from the remote."""
    with connect(address) as database:
        [found] = database.execute(
            "select commit from rookery.checkpoints where task = %s order by seq desc limit 1",
            [session_id],
        ).fetchall()
    names = git(remote, "ls-tree", "-r", "--name-only", found[0]).splitlines()
    return {name: git(remote, "show", f"{found[0]}:{name}") for name in names}


def wait(address: str, session_id: str) -> FleetSession:
    with closing(Fleet(address)) as fleet:
        return fleet.wait(session_id, SECONDS)
