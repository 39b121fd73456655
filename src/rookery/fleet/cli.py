"""`rookery worker` and `rookery fleet`: run sessions on many machines.

`rookery worker` starts a process per slot and restarts those that end. Each slot holds a pipe from
it, so that none outlives it.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from rookery import NAME
from rookery.cli.command_line import json_option
from rookery.cli.main import hide_key
from rookery.core.modes import Level
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import SettingsError, StorageError

if TYPE_CHECKING:
    from rookery.core.fleet_rows import FleetSession
    from rookery.fleet.orders import Fleet

VARIABLE = "ROOKERY_FLEET_DATABASE"
F = TypeVar("F", bound=Callable[..., Any])
FAILED = 1
WRONG_USAGE = 2
NEVER_READY = 78
NO_DATABASE = 69
RESTART_SECONDS = 1.0
MOST_FAILED_STARTS = 5
"""A worker gives up after this many slots in a row failed to start. It waits for the database."""
_DRAINING = (signal.SIGTERM, signal.SIGINT)


def _database(function: F) -> F:
    option = click.option(
        "--database",
        callback=hide_key,
        help="The fleet's PostgreSQL database, such as postgresql://host/name. Default: the "
        "variable ROOKERY_FLEET_DATABASE.",
    )
    return option(function)


def _address(given: str | None) -> str:
    if find_spec("dbos") is None:
        raise SettingsError(
            "A fleet needs more packages. In your clone, run: uv tool install '.[all,fleet]'"
        )
    address = given or os.environ.get(VARIABLE, "")
    if not address:
        raise SettingsError(f"Give the database with --database, or set {VARIABLE}.")
    if not address.startswith(("postgresql://", "postgres://")):
        raise SettingsError("The database must be an address like postgresql://host/name.")
    return address


@click.command("worker")
@_database
@click.option("--name", help="The worker's name. Default: the machine's name.")
@click.option(
    "--label", "labels", multiple=True, help="Also take sessions with this label; can be repeated."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 64),
    default=2,
    help="Sessions that run at the same time. Default: 2.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default="~/rookery-fleet",
    help="The folder for clones and git objects. Default: ~/rookery-fleet.",
)
@click.option(
    "--permission-mode",
    type=click.Choice([level.value for level in Level]),
    help="The highest level that a session can have here. Default: the level in the settings.",
)
@click.option(
    "--project-limit",
    type=click.IntRange(min=1),
    help="Sessions of one repository that run at the same time, on all workers. Default: 50.",
)
@click.option(
    "--local-repositories",
    is_flag=True,
    help="Also accept repositories in folders of this machine, not only https and ssh.",
)
@click.option("--lease", type=click.FloatRange(min=1), default=10.0, hidden=True)
@click.option("--slot", type=int, hidden=True)
def worker(
    database: str | None,
    name: str | None,
    labels: Sequence[str],
    slots: int,
    folder: Path,
    permission_mode: str | None,
    project_limit: int | None,
    local_repositories: bool,
    lease: float,
    slot: int | None,
) -> int:
    """Run sessions of a fleet on this machine until SIGTERM. Other workers then continue the
    running sessions."""
    address = _address(database)
    name = name or socket.gethostname()
    if slot is None:
        _check_database(address)
        return _Slots(address, slots).run()
    from rookery.fleet.checkouts import LOCAL, PROTOCOLS
    from rookery.fleet.session_life import LifePlace
    from rookery.fleet.slot import run_slot
    from rookery.protocol.server import new_token

    os.environ.pop(VARIABLE, None)  # its password is not for the commands of agents
    threading.Thread(target=_end_with_parent, daemon=True).start()
    executor = f"{name}/{slot}/{uuid.uuid4().hex[:8]}"
    highest = Level(permission_mode) if permission_mode else None
    protocols = f"{PROTOCOLS}:{LOCAL}" if local_repositories else PROTOCOLS
    root = folder.expanduser().absolute()
    place = LifePlace(address, executor, root, highest, lease, new_token(), protocols)
    stop = threading.Event()
    for number in _DRAINING:
        signal.signal(number, lambda *_: stop.set())
    try:
        running = run_slot(place, name, labels, project_limit)
    except StorageError as error:
        print(f"note: {error}", file=sys.stderr, flush=True)
        os._exit(NO_DATABASE)
    except Exception:
        traceback.print_exc()
        os._exit(NEVER_READY)
    print(json.dumps({"slot": executor}), flush=True)
    stop.wait()
    running.drain()
    return _sleep_for_ever()


def _sleep_for_ever() -> int:
    while True:  # the session's thread ends the process once it is handed over
        time.sleep(60)


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(FAILED)


def _check_database(address: str) -> None:
    """Fail early if the database cannot be used, and create the tables."""
    from dbos import run_dbos_database_migrations

    from rookery.fleet.database import connect, create_tables
    from rookery.fleet.orders import dbos_address, dbos_errors

    with connect(address, "worker") as connection:
        create_tables(connection)
        found = connection.execute("select to_regclass('dbos.workflow_status')").fetchone()
    if found == (None,):
        with dbos_errors():
            run_dbos_database_migrations(dbos_address(address))


class _Slots:
    """The processes of a worker."""

    def __init__(self, address: str, count: int) -> None:
        self._environment = {**os.environ, VARIABLE: address}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._count = count
        self._draining = False
        self._failed_starts = 0

    def run(self) -> int:
        for number in _DRAINING:
            signal.signal(number, self._drain)
        for slot in range(self._count):
            self._start(slot)
        while self._processes:
            pid, status = os.wait()
            ended = [slot for slot, each in self._processes.items() if each.pid == pid]
            for slot in ended:
                process = self._processes.pop(slot)
                process.returncode = os.waitstatus_to_exitcode(status)
                failed = process.returncode in (NEVER_READY, WRONG_USAGE)
                self._failed_starts = self._failed_starts + 1 if failed else 0
                if self._failed_starts >= MOST_FAILED_STARTS:
                    self._drain()
                if not self._draining:
                    time.sleep(RESTART_SECONDS)
                    self._start(slot)
        return FAILED if self._failed_starts >= MOST_FAILED_STARTS else 0

    def _start(self, slot: int) -> None:
        given = [each for each in sys.argv[1:] if "://" not in each and each != "--database"]
        words = [sys.executable, "-m", "rookery", *given, "--slot", str(slot)]
        self._processes[slot] = subprocess.Popen(
            words, stdin=subprocess.PIPE, env=self._environment
        )
        if self._draining:  # the signal came before this process existed
            self._processes[slot].terminate()

    def _drain(self, *_: object) -> None:
        self._draining = True
        for process in self._processes.values():
            process.terminate()


@click.group("fleet")
def fleet() -> None:
    """Start, list, answer and cancel sessions of a fleet."""


@contextmanager
def open_fleet(database: str | None) -> Iterator["Fleet"]:
    address = _address(database)
    from rookery.fleet.orders import Fleet

    _check_database(address)
    with closing(Fleet(address)) as opened:
        yield opened


@fleet.command("run")
@click.argument("text")
@_database
@click.option("--repo", required=True, help="The address of the git repository.")
@click.option("--ref", required=True, help="The branch to start from.")
@click.option("--label", default="", help="Run only on workers with this label.")
@click.option("--priority", type=click.IntRange(1, 1000), default=10, help="1 is the most urgent.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=0.0,
    help="End the session after this many seconds.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 20),
    default=3,
    help="Retry a failed run up to this many times. Default: 3.",
)
@click.option("-M", "--mode", default="", help="The mode to start in.")
@click.option(
    "--permission-mode",
    type=click.Choice([level.value for level in Level]),
    default=None,
    help="What runs without asking. A worker may allow less.",
)
@click.option("--session-id", help="Start a session with this id.")
@click.option("--detach", is_flag=True, help="Print the session's id and exit.")
@json_option
def run_command(
    text: str,
    database: str | None,
    priority: int,
    permission_mode: str | None,
    session_id: str | None,
    detach: bool,
    as_json: bool,
    **order: Any,
) -> int:
    """Run a session on the fleet, and print its result."""
    with open_fleet(database) as opened:
        from rookery.fleet.orders import SessionOrder

        wanted = SessionOrder(
            session_id=session_id or str(uuid.uuid4()),
            text=text,
            level=permission_mode or "",
            **order,
        )
        opened.submit(wanted, priority)
        if detach:
            print(json.dumps({"session_id": wanted.session_id}) if as_json else wanted.session_id)
            return 0
        return _report(opened.wait(wanted.session_id), as_json)


def _to_copy(words: list[str]) -> str:
    """A command line for a shell. Workers write rows, so its words may be anything."""
    return shlex.join(map(harmless_line, words))


def _question(session: "FleetSession") -> str:
    """What it asks: a question of the model with the answers that the model suggests."""
    if session.code != "followup":
        return session.question
    from rookery.protocol.codec import followup

    question, offered = followup(session.question)
    return "\n".join([question, *(f"- {each}" for each in offered)])


def _report(session: "FleetSession", as_json: bool) -> int:
    if as_json:
        print(msgspec.json.encode(session).decode())
    elif session.state == "waiting":
        print(f"The session asks: {harmless(_question(session))}", file=sys.stderr)
        about = ["--digest", session.digest] if session.digest else []
        reply = "TEXT" if session.code == "followup" else "yes"
        answer = [NAME, "fleet", "answer", session.session_id, reply, *about]
        print(f"To answer: {_to_copy(answer)}", file=sys.stderr)
    else:
        if session.result:
            print(harmless(session.result))
        if session.reason:
            print(harmless(session.reason), file=sys.stderr)
        if session.checkpoint:
            fetch = ["git", "fetch", "--", session.repo, session.checkpoint]
            print(f"To fetch its files: {_to_copy(fetch)}", file=sys.stderr)
    if session.state == "completed" and not session.code:
        return 0
    from rookery.cli.reports import BY_CODE

    return BY_CODE.get("needs_human" if session.state == "waiting" else session.code, FAILED)


@fleet.command("wait")
@click.argument("session_id")
@_database
@json_option
def wait_command(session_id: str, database: str | None, as_json: bool) -> int:
    """Wait until a session ends or asks a question, and print its result or question."""
    with open_fleet(database) as opened:
        return _report(opened.wait(session_id), as_json)


@fleet.command("list")
@_database
@json_option
def list_command(database: str | None, as_json: bool) -> None:
    """List workers and sessions."""
    with open_fleet(database) as opened:
        workers, sessions = opened.workers(), opened.sessions()
    if as_json:
        print(msgspec.json.encode({"workers": workers, "sessions": sessions}).decode())
        return
    for each in workers:
        labels = f" [{', '.join(each.labels)}]" if each.labels else ""
        doing = each.session or each.state
        seen = "" if doing == "unreadable" else f"  seen {each.seconds:.0f} s ago"
        print(harmless_line(f"{each.executor}{labels}  {doing}{seen}"))
    for one in sessions:
        text = " ".join(one.text.split())[:60]
        print(harmless_line(f"{one.session_id}  {one.state:9}  {one.worker:20}  {text}"))


@fleet.command("show")
@click.argument("session_id")
@_database
def show_command(session_id: str, database: str | None) -> None:
    """Print the events of a session, one JSON object per line."""
    from rookery.protocol.codec import event_to_json

    with open_fleet(database) as opened:
        opened.session(session_id)
        for event in opened.events(session_id):
            print(event_to_json(event).decode("utf-8", "replace"))


@fleet.command("answer")
@click.argument("session_id")
@click.argument("reply")
@_database
@click.option("--digest", default="", help="Answer only the question with this digest.")
def answer_command(session_id: str, reply: str, database: str | None, digest: str) -> None:
    """Answer the question of a session: yes, no, or a text."""
    with open_fleet(database) as opened:
        from rookery.fleet.orders import Given

        plain = {"yes": Given(reply="yes"), "no": Given(reply="no")}
        given = plain.get(reply) or Given(reply="message", text=reply)
        opened.answer(session_id, msgspec.structs.replace(given, digest=digest))


@fleet.command("cancel")
@click.argument("session_id")
@_database
def cancel_command(session_id: str, database: str | None) -> None:
    """Cancel a session. Its files stay as they are at its last checkpoint."""
    with open_fleet(database) as opened:
        opened.cancel(session_id)
