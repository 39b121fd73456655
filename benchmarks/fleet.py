"""Measure a fleet on this machine: `python benchmarks/fleet.py`.

First what a turn costs: what one call of a tool stores, which is request, answer, start, result and
changed files. It is written to a file, to SQLite and to PostgreSQL, all with their syncs, so the
network between a worker and its database comes on top.

Then whole sessions of ten turns on one, two and four workers, whose model takes about a second for
a turn; how much the database grows by them; and how long it takes until another worker goes on with
the session of one that was killed.
"""

import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median, quantiles

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Fact,
    FilesChanged,
    RequestStarted,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    next_event,
)
from rookery.engine.ports.hooks import LogStore
from rookery.fleet.database import connect
from rookery.fleet.journal import PostgresJournals
from rookery.fleet.orders import Fleet
from rookery.protocol.codec import event_to_json
from rookery.storage.journal import Journal
from support.fleet_machines import Machine, new_remote, submit, until
from support.postgres import Postgres

TURNS = 1000
RESULT = "a line of output, as long as those of a compiler are in the mean\n" * 30


def turn(number: int) -> list[Fact]:
    call = ToolCall(id=f"c{number}", name="execute_command", arguments={"command": "make test"})
    return [
        RequestStarted(request_id=f"r{number}", model="m"),
        AssistantSpoke(request_id=f"r{number}", blocks=(call,)),
        ToolStarted(call_id=call.id, tool=call.name, title="Run make test", command="make test"),
        ToolFinished(call_id=call.id, text=f"{number}\n{RESULT}"),
        FilesChanged(call_id=call.id, before="0" * 40, after=f"{number:040x}", since=1),
    ]


def milliseconds_per_turn(journal: LogStore) -> list[float]:
    last: Event | None = next_event(None, TaskOpened(text="Go"), 0)
    assert last
    journal.write(last)
    taken: list[float] = []
    for number in range(TURNS):
        before = time.perf_counter()
        for fact in turn(number):
            last = next_event(last, fact, 0)
            journal.write(last)
        taken.append((time.perf_counter() - before) * 1000)
    journal.close()
    return taken


class SQLiteJournal:
    """The least that SQLite needs for the same promise."""

    recovered = ""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._database.execute("create table events (seq integer primary key, json blob)")
        self._waiting: list[tuple[int, bytes]] = []

    def write(self, event: Event) -> None:
        self._waiting.append((event.seq, event_to_json(event)))
        if type(event.fact) not in Journal.waits:
            self._database.execute("begin")
            self._database.executemany("insert into events values (?, ?)", self._waiting)
            self._database.execute("commit")
            self._waiting.clear()

    def read(self) -> list[Event]:
        return []

    def close(self) -> None:
        self._database.execute("pragma wal_checkpoint(truncate)")
        self._database.close()


def report(name: str, taken: list[float], size: int) -> None:
    slow = quantiles(taken, n=20)[-1]
    print(f"| {name} | {median(taken):.1f} ms | {slow:.1f} ms | {size / 1e6:.1f} MB |")


def main() -> None:
    print(f"| journal | median turn | 95% of turns within | size of {TURNS:,} turns |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        journal = Path(folder) / "t"
        taken = milliseconds_per_turn(Journal.create(journal))
        report("file", taken, (journal / "journal.jsonl").stat().st_size)
        path = Path(folder) / "journal.sqlite"
        taken = milliseconds_per_turn(SQLiteJournal(path))
        report("SQLite", taken, path.stat().st_size)
    with closing(Postgres(durable=True)) as server:
        address = server.new_database()
        with closing(PostgresJournals(address, "benchmark")) as journals:
            taken = milliseconds_per_turn(journals.create("t"))
        with connect(address) as database:
            stored = "pg_total_relation_size('rookery.events')"
            [size] = database.execute(f"select {stored}").fetchone() or (0,)
    report("PostgreSQL", taken, size)

    sessions()


TURNS_OF_A_SESSION = 10
SESSIONS_PER_WORKER = 6
CALL = "{{tool: execute_command, arguments: {{command: echo {0} >> n}}}}"
CALLS = (CALL.format(number) for number in range(TURNS_OF_A_SESSION))
SCRIPT = "".join(f"- pause: 0.2\n  calls: [{call}]\n" for call in CALLS) + "- say: Done.\n" * 3


def sessions() -> None:
    print()
    print("| workers | sessions a minute | turns a minute | database for 1,000 turns |")
    print("| --- | --- | --- | --- |")
    with closing(Postgres(durable=True)) as server, tempfile.TemporaryDirectory() as folder:
        for count in (1, 2, 4):
            throughput(server, Path(folder) / str(count), count)
        seconds_to_take_over(server, Path(folder) / "lost")


@contextmanager
def workers(folder: Path, address: str, count: int) -> Iterator[list[Machine]]:
    folder.mkdir()
    script = folder / "script.yaml"
    script.write_text(SCRIPT)
    with ExitStack() as stack:
        options = ("--permission-mode", "auto", "--lease", "10")
        names = [f"w{number}" for number in range(count)]
        machines = [Machine(folder, name, address, script, *options) for name in names]
        for machine in machines:
            stack.callback(machine.close)
        for machine in machines:
            machine.wait_until_ready()
        yield machines


def throughput(server: Postgres, folder: Path, count: int) -> None:
    address = server.new_database()
    with workers(folder, address, count), closing(Fleet(address)) as fleet:
        remote = new_remote(folder / "git")
        before, begun = size_of(address), time.monotonic()
        names = [f"s{number}" for number in range(SESSIONS_PER_WORKER * count)]
        for name in names:
            submit(address, name, remote)
        assert {fleet.wait(name, 600).state for name in names} == {"completed"}
        minutes = (time.monotonic() - begun) / 60
        turns = len(names) * TURNS_OF_A_SESSION
        grown = (size_of(address) - before) / turns * 1000 / 1e6
    print(
        f"| {count} | {len(names) / minutes:.0f} | {turns / minutes:.0f} | {grown:.1f} MB |",
        flush=True,
    )


def size_of(address: str) -> int:
    with connect(address) as database:
        [size] = database.execute("select pg_database_size(current_database())").fetchone() or (0,)
    return int(size)


def seconds_to_take_over(server: Postgres, folder: Path) -> None:
    """From the death of a worker with the default lease to the next fact of its session."""
    address = server.new_database()
    with workers(folder, address, 2) as machines, closing(Fleet(address)) as fleet:
        submit(address, "s1", new_remote(folder / "git"))
        until(lambda: len(fleet.events("s1")) > 10)
        lost = next(each for each in machines if fleet.session("s1").worker.startswith(each.name))
        lost.kill()
        last, killed = fleet.events("s1")[-1].seq, time.monotonic()
        until(lambda: fleet.events("s1", last))
        print(f"\nTaken over after {time.monotonic() - killed:.1f} s, with a lease of 10 s.")


if __name__ == "__main__":
    main()
