"""Rows of the database that a hostile worker may have written."""

import pickle
import shlex
from contextlib import closing
from pathlib import Path

import pytest
from dbos import DBOSClient

from rookery.core.fleet_rows import FleetSession, FleetState
from rookery.fleet.cli import _report, list_command
from rookery.fleet.database import connect
from rookery.fleet.orders import Fleet, dbos_address
from support.fleet_machines import Start, submit, until, wait


class Harmful:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._path,)


def test_a_pickled_value_in_the_database_runs_no_code_on_workers(
    address: str, remote: Path, start: Start, tmp_path: Path
):
    start("a", "- say: Done.\n").wait_until_ready()
    assert pickle.loads(pickle.dumps(Harmful(tmp_path / "here"))) is None
    assert (tmp_path / "here").exists()
    client = DBOSClient(system_database_url=dbos_address(address))
    place = {"workflow_id": "s1", "queue_name": "rookery", "queue_partition_key": str(remote)}
    client.enqueue({"workflow_name": "session", **place}, Harmful(tmp_path / "there"))
    submit(address, "s2", remote)
    assert wait(address, "s2").state == "completed"
    client.destroy()
    with connect(address) as database:
        state = "select status from dbos.workflow_status where workflow_uuid = 's1'"
        until(lambda: database.execute(state).fetchone() != ("ENQUEUED",))
    assert not (tmp_path / "there").exists()


def test_rows_that_are_not_valid_are_listed_beside_the_others(
    address: str, capsys: pytest.CaptureFixture[str]
):
    with connect(address) as database:
        for name, state, created in (
            ("good", "queued", "now"),
            ("bad", "gone", "now"),
            ("never", "running", "infinity"),
            ("huge", "running", "now"),
        ):
            database.execute(
                "insert into rookery.sessions (task, label, repo, ref, text, state, created) "
                "values (%s, '', 'r', 'main', 'Go', %s, %s)",
                [name, state, created],
            )
        # a character that needs six bytes in JSON: the row as JSON would exceed the server's limit
        database.execute(
            "update rookery.sessions set label = repeat(chr(1), 200 * 1024 * 1024) "
            "where task = 'huge'"
        )
        for name, labels, seen in (
            ("a/0/1", ["gpu"], "now"),
            ("b/0/2", [None], "now"),
            ("c/0/3", [["x"]], "now"),
            ("d/0/4", [], "-infinity"),
            ("e/0/5", ["x" * 10**7], "now"),
        ):
            database.execute(
                "insert into rookery.workers (executor, name, labels, state, seen, digest) "
                "values (%s, 'w', %s::text[], 'ready', %s, '')",
                [name, labels, seen],
            )
    with closing(Fleet(address)) as fleet:
        states = {each.session_id: each.state for each in fleet.sessions()}
        assert states == {"good": "queued", **dict.fromkeys(("bad", "huge", "never"), "unreadable")}
        listing = fleet.listing(10)
        workers = {each.executor: each.state for each in listing.workers}
        bad = dict.fromkeys(("b/0/2", "c/0/3", "d/0/4", "e/0/5"), "unreadable")
        assert workers == {"a/0/1": "ready", **bad}
        assert [each.label for each in listing.queues] == ["", "gpu"]
        assert fleet.wait("bad").reason == "The session's row in the database is not valid."
    list_command.callback(database=address, as_json=False)  # type: ignore[misc]
    lines = capsys.readouterr().out.splitlines()
    assert "b/0/2  unreadable" in lines
    assert len(lines) == 9


def test_a_slot_names_the_session_that_waits_in_it(address: str):
    """A slot that shows no session would seem free, but takes no other."""
    with connect(address) as database:
        database.execute(
            "insert into rookery.sessions (task, label, repo, ref, text, state, worker) "
            "values ('s1', '', 'r', 'main', 'Go', 'waiting', 'a/0/1')"
        )
        for name in ("a/0/1", "b/0/2"):
            database.execute(
                "insert into rookery.workers (executor, name, labels, state, digest) "
                "values (%s, 'w', '{}', 'ready', '')",
                [name],
            )
    with closing(Fleet(address)) as fleet:
        named = {each.executor: each.session for each in fleet.workers()}
    assert named == {"a/0/1": "s1", "b/0/2": ""}


@pytest.mark.parametrize("state", ["waiting", "completed"])
def test_a_worker_puts_no_command_into_what_is_printed_to_copy(
    capsys: pytest.CaptureFixture[str], state: FleetState
):
    evil = "--x; touch evil\x1b[2J\ntouch evil"
    empty = dict.fromkeys(("label", "ref", "text", "worker", "result", "reason", "code"), "")
    row = FleetSession(
        **empty,
        session_id="s1",
        state=state,
        repo=evil,
        question="Run it?",
        digest=evil,
        created=0,
        checkpoint=evil,
    )
    _report(row, as_json=False)
    lines = capsys.readouterr().err.split("\n")
    (said,) = (each for each in lines if "evil" in each)
    assert "\x1b" not in said
    words = shlex.split(said.partition(": ")[2])
    if state == "waiting":
        assert words[:-1] == ["rookery", "fleet", "answer", "s1", "yes", "--digest"]
    else:
        assert (words[:3], len(words)) == (["git", "fetch", "--"], 5)


def test_a_row_of_the_engine_that_is_not_valid_does_not_stop_the_signs_of_life(
    address: str, start: Start
):
    start("a", "- say: Done.\n").wait_until_ready()
    with connect(address) as database:
        database.execute(
            "insert into dbos.workflow_status (workflow_uuid, status, name, executor_id, "
            "authenticated_roles, queue_name) values ('bad', 'PENDING', 'session', 'x/0/1', "
            "'{not JSON', 'rookery:nobody')"
        )
        database.execute(
            "insert into rookery.workers (executor, name, labels, state, digest, seen) "
            "values ('x/0/1', 'x', '{}', 'ready', '', now() - interval '1 minute')"
        )
    with closing(Fleet(address)) as fleet:
        until(lambda: {each.name: each.state for each in fleet.workers()}["x"] == "lost")
