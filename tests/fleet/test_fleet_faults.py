"""Workers killed, stopped and cut off at random, and the database restarted: every session ends, no
fact is lost, and no effect is repeated.

`make test` runs a short form. Four workers and 200 sessions of ten turns:

    ROOKERY_TORTURE=1 python -m pytest tests/fleet/test_fleet_faults.py
"""

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from rookery.core.facts import Answered, AssistantSpoke, Ending, Event, ToolFinished, ToolStarted
from rookery.fleet.orders import Fleet, SessionOrder
from support.fleet_machines import LEASE, Machine, Start, pushed_files
from support.postgres import Postgres
from support.worker_networks import WorkerNetwork

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SEED = int(os.environ.get("ROOKERY_SEED") or random.randrange(10**6))
WORKERS, SESSIONS, TURNS, FAULTS = (4, 200, 10, 60) if TORTURE else (2, 4, 4, 3)
SECONDS = 3600 if TORTURE else 240


def script() -> str:
    calls = [
        f"- pause: 0.3\n  calls:\n    - tool: execute_command\n      arguments: "
        f"{{command: echo mark-{turn} >> marks.txt}}\n"
        for turn in range(TURNS)
    ]
    # said again if what was changed last was lost after the session was done
    return "".join(calls) + "- say: Done.\n" * 3


class Faults:
    """What happens to the machines, one fault after the other."""

    def __init__(
        self, chance: random.Random, start: Start, postgres: Postgres, address: str
    ) -> None:
        self._chance = chance
        self._address = address
        self._start = start
        self._postgres = postgres
        self._machines: list[Machine] = []
        for _ in range(WORKERS):
            self._replace(None)
        for machine in self._machines:
            machine.wait_until_ready()

    def one(self, nth: int) -> None:
        time.sleep(self._chance.uniform(0.5, 2.5))
        machine = self._chance.choice(self._machines)
        kind = "restart" if nth == FAULTS // 2 else self._chance.choice(["kill", "stop", "cut"])
        print(f"fault {nth}: {kind} {self._machines.index(machine)}")
        match kind:
            case "restart":
                self._postgres.stop(self._chance.choice(["immediate", "fast"]))
                self._postgres.start()
            case "kill":
                machine.kill()
                self._replace(machine)
            case "cut":
                assert machine.network
                machine.network.cut()
                time.sleep(self._chance.uniform(0.5, 2.5) * float(LEASE))
                machine.network.mend()
            case _:
                machine.signal(signal.SIGSTOP)
                time.sleep(self._chance.uniform(0.1, 2.5) * float(LEASE))
                machine.signal(signal.SIGCONT)

    def start_ended_ones(self) -> None:
        """As a service manager does: a worker that finds no database when it starts ends."""
        for machine in [each for each in self._machines if each.has_ended]:
            self._replace(machine)

    def _replace(self, gone: Machine | None) -> None:
        if gone:
            self._machines.remove(gone)
        name = f"m{self._chance.randrange(10**9)}"
        network = WorkerNetwork(self._address)
        options = ("--permission-mode", "auto")
        self._machines.append(self._start(name, script(), *options, network=network))


def test_sessions_survive_lost_workers_and_a_restart_of_the_database(
    postgres: Postgres, address: str, remote: Path, start: Start
):
    print(f"ROOKERY_SEED={SEED}")
    faults = Faults(random.Random(SEED), start, postgres, address)
    names = [f"s{number}" for number in range(SESSIONS)]
    with closing(Fleet(address)) as fleet:
        for name in names:
            order = SessionOrder(session_id=name, text="Go", repo=str(remote), ref="main")
            fleet.submit(order)
    for nth in range(FAULTS):
        faults.one(nth)
        faults.start_ended_ones()
    with closing(Fleet(address)) as fleet:
        for name in names:
            ended = fleet.wait(name, SECONDS)
            assert (ended.state, ended.result) == ("completed", "Done."), ended
            check(fleet.events(name), pushed_files(address, name, remote).get("marks.txt", ""))


def check(events: list[Event], marks: str) -> None:
    """Each turn was taken once. A mark that is missing was lost with a machine, and the session
    says so; none is there twice."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    facts = [event.fact for event in events]
    told = sum("may be lost" in fact.text for fact in facts if isinstance(fact, Answered))
    answers = sum(isinstance(fact, AssistantSpoke) for fact in facts)
    assert TURNS + 1 <= answers <= TURNS + 1 + told
    started = Counter(fact.call_id for fact in facts if isinstance(fact, ToolStarted))
    # a call that was still to be made is not made after lost changes were reported
    assert TURNS - told <= len(started) <= TURNS
    assert set(started.values()) == {1}
    found = Counter(marks.split())
    assert found.keys() <= {f"mark-{turn}" for turn in range(TURNS)}
    assert set(found.values()) <= {1}
    done = [fact.ending for fact in facts if isinstance(fact, ToolFinished)]
    assert len(found) == TURNS or told or any(ending is not Ending.DONE for ending in done)
