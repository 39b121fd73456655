"""Run tests in forked workers, so that collecting and importing happens once.

    pytest --workers auto

Each worker takes the next file from a queue and sends its reports back. If a worker dies, the test
that it ran fails, and a new worker continues with the next one.
"""

import atexit
import gc
import math
import os
import signal
import struct
import sys
import tempfile
import threading
import traceback
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, groupby, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.unraisableexception import collect_unraisable

from support.memory_folder import keep_in_memory

_NUMBER = struct.Struct("i")
_SECONDS = "workers/seconds"
"""In pytest's cache: how long each file took."""
_CRASHED = "The worker died while it ran this test."


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("workers")
    group.addoption("--workers", metavar="N|auto", help="run the tests in N forked processes")
    group.addoption(
        "--each-test",
        action="store_true",
        help="let a worker take one test at a time, not one file",
    )


def worker_count(config: pytest.Config) -> int:
    wanted: str | None = config.getoption("--workers")
    if wanted != "auto":
        return int(wanted or 0)
    # two per core, because tests often wait for processes and disks
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return 2 * cores


def run_in_workers(session: pytest.Session, workers: int, together: Collection[Path] = ()) -> None:
    """Run the tests. One worker runs all files of each folder in `together`, because their tests
    share something that starts slowly."""
    assert threading.active_count() == 1, "a thread would be lost in a worker"
    if session.config.getoption("--each-test"):
        groups = [[item] for item in session.items]
    else:
        groups = _longest_first(session, together)
    with tempfile.TemporaryFile() as numbers:
        numbers.write(b"".join(map(_NUMBER.pack, range(len(groups)))))
        numbers.flush()
        numbers.seek(0)
        _Run(session, groups, numbers.fileno()).run(min(workers, len(groups)))


def _longest_first(session: pytest.Session, together: Collection[Path]) -> list[list[pytest.Item]]:
    """New files first, then those that took longest last time, so that workers end together."""

    def place(item: pytest.Item) -> Path:
        return item.path.parent if item.path.parent in together else item.path

    def seconds(items: list[pytest.Item]) -> float:
        known = [took.get(str(each)) for each in dict.fromkeys(item.path for item in items)]
        return sum(math.inf if each is None else each for each in known)

    took: dict[str, float] = _cache(session).get(_SECONDS, {})
    groups = [list(items) for _, items in groupby(session.items, place)]
    return sorted(groups, key=seconds, reverse=True)


def _cache(session: pytest.Session) -> pytest.Cache:
    cache = session.config.cache
    assert cache
    return cache


@dataclass
class _Worker:
    pid: int
    taken: deque[pytest.Item] = field(default_factory=deque)
    """Tests without a report yet; the first one is running."""


class _Run:
    def __init__(
        self, session: pytest.Session, groups: Sequence[list[pytest.Item]], queue: int
    ) -> None:
        self._session = session
        self._groups = groups
        self._queue = queue
        """Descriptor of a file with the groups' numbers. All processes share its position."""
        self._folder: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        keep_in_memory(self._folder)
        self._names = (f"worker{number}" for number in count())
        self._workers: dict[Connection, _Worker] = {}
        self._seconds: Counter[str] = Counter()

    def run(self, workers: int) -> None:
        for _ in range(workers):
            self._start([])
        try:
            while self._workers and not self._stops():
                for link in wait(list(self._workers)):
                    assert isinstance(link, Connection)
                    self._receive(link)
        finally:
            self._stop()
        cache = _cache(self._session)
        cache.set(_SECONDS, {**cache.get(_SECONDS, {}), **self._seconds})
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _start(self, first: list[pytest.Item]) -> None:
        """Start a worker that runs these tests, and then takes from the queue."""
        ours, theirs = Pipe(duplex=False)
        name = next(self._names)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            for link in (ours, *self._workers):
                link.close()
            _work(self._session, self._folder / name, theirs, chain(first, self._take(theirs)))
        theirs.close()
        self._workers[ours] = _Worker(pid, deque(first))

    def _take(self, link: Connection) -> Iterator[pytest.Item]:
        while taken := os.read(self._queue, _NUMBER.size):
            (number,) = _NUMBER.unpack(taken)
            link.send(number)
            yield from self._groups[number]

    def _receive(self, link: Connection) -> None:
        worker = self._workers[link]
        message = _received(link)
        if message is None:
            self._end(link)
            return
        if isinstance(message, int):
            worker.taken.extend(self._groups[message])
            return
        item = worker.taken.popleft()
        hook = self._session.config.hook
        self._report(
            item,
            [
                hook.pytest_report_from_serializable(config=self._session.config, data=each)
                for each in message
            ],
        )

    def _report(self, item: pytest.Item, reports: Sequence[pytest.TestReport]) -> None:
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
            self._seconds[str(item.path)] += report.duration
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _end(self, link: Connection) -> None:
        worker = self._workers.pop(link)
        link.close()
        _, status = os.waitpid(worker.pid, 0)
        if not worker.taken:
            self._session.testsfailed += status != 0
            return
        item = worker.taken.popleft()
        failed = pytest.TestReport(
            item.nodeid, item.location, item.keywords, "failed", _CRASHED, "call"
        )
        self._report(item, [failed])
        if not self._stops():
            self._start(list(worker.taken))

    def _stops(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def _stop(self) -> None:
        """Interrupt the workers that still run."""
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGINT)
        for worker in self._workers.values():
            os.waitpid(worker.pid, 0)


def _received(link: Connection) -> Any:
    """A message, or None if the worker has ended."""
    try:
        return link.recv()
    except EOFError:
        return None


# ── a worker ────────────────────────────────────────────────────────────────────────────


def _work(
    session: pytest.Session, folder: Path, link: Connection, items: Iterator[pytest.Item]
) -> NoReturn:
    code = 1
    atexit._clear()  # the parent runs its own handlers
    try:
        folder.mkdir(mode=0o700)
        session.config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        sender = _Sender(session.config)
        _report_to(sender, session.config)
        for item, following in pairwise(chain(items, [None])):
            assert item
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            link.send(sender.taken())
        gc.collect()
        collect_unraisable(session.config)
        code = 0
    except KeyboardInterrupt:
        session._setupstate.teardown_exact(None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Sender:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def taken(self) -> list[dict[str, Any]]:
        taken, self._reports = self._reports, []
        return taken


def _report_to(sender: _Sender, config: pytest.Config) -> None:
    """Leave the terminal to the parent, and capture output in this worker's own files."""
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(sender)
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
