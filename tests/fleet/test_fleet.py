"""Sessions on real workers, with a real PostgreSQL and a git remote."""

import json
import os
import signal
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered, Ending, Event, ToolFinished, ToolStarted
from rookery.errors import CommandRejected
from rookery.fleet.database import FleetDatabase, connect
from rookery.fleet.orders import Fleet, Given, SessionOrder, seconds_left
from support.fleet_machines import (
    FLEET_COMMAND,
    KEY,
    Machine,
    Start,
    events,
    new_remote,
    pushed_files,
    submit,
    until,
    wait,
)
from support.repositories import git
from support.warm_programs import run_program

SCRIPT = """
- calls:
    - tool: write_to_file
      arguments: {path: one.txt, content: "one\\n"}
- calls:
    - tool: execute_command
      arguments:
        command: "echo two $OPENAI_API_KEY $ROOKERY_FLEET_DATABASE >> two.txt; cat two.txt"
- say: Done.
"""
SLOW = SCRIPT.replace("- say: Done.", "- say: Done.\n  pause: 600")
"""It hangs before its last answer."""
AGAIN = SCRIPT + "- say: Done.\n"
"""It is done once more if what it changed last was lost after it was done."""
FILES = {"one.txt": "one", "readme.txt": "Read me.", "two.txt": "two"}
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
AUTO = ("--permission-mode", "auto")


def calls_done(found: Sequence[Event]) -> Counter[str]:
    """How often each call was started that did not fail."""
    started = Counter(e.fact.call_id for e in found if isinstance(e.fact, ToolStarted))
    assert all(e.fact.ending is Ending.DONE for e in found if isinstance(e.fact, ToolFinished)), (
        found
    )
    return started


def wait_until_both_calls_are_pushed(address: str, session_id: str, remote: Path) -> None:
    with closing(Fleet(address)) as fleet, connect(address) as database:
        until(lambda: calls_ended(fleet.events(session_id)) == 2)
        saved = "select max(seq) from rookery.checkpoints"
        until(lambda: database.execute(saved).fetchone() != (None,))
    until(lambda: pushed_files(address, session_id, remote) == FILES)


def calls_ended(found: Sequence[Event]) -> int:
    return sum(isinstance(event.fact, ToolFinished) for event in found)


def test_sessions_run_by_priority_and_their_files_are_pushed_and_no_secret_is_stored(
    address: str, remote: Path, start: Start
):
    worker = start("a", SCRIPT, *AUTO)
    worker.wait_until_ready()
    worker.signal(signal.SIGSTOP)
    order = ["run", "--fleet", "Go", "--repo", str(remote), "--ref", "main", "--session-id"]
    assert rookery(worker, *order, "late", "--detach", "--priority", "20") == "late\n"
    assert rookery(worker, *order, "soon", "--detach", "--priority", "5") == "soon\n"
    worker.signal(signal.SIGCONT)
    assert rookery(worker, "fleet", "wait", "late") == "Done.\n"
    listed = json.loads(rookery(worker, "fleet", "list", "--json"))
    assert {(each["session_id"], each["state"]) for each in listed["sessions"]} == {
        ("soon", "completed"),
        ("late", "completed"),
    }
    assert events(address, "soon")[-1].ts < events(address, "late")[0].ts
    shown = rookery(worker, "fleet", "show", "late").splitlines()
    assert len(shown) == len(events(address, "late"))
    for each in listed["sessions"]:
        assert git(remote, "rev-parse", "--verify", each["checkpoint"])
    for name in ("soon", "late"):
        assert pushed_files(address, name, remote) == FILES
        assert set(calls_done(events(address, name)).values()) == {1}
    stored = everything_in(address)
    assert "echo two" in stored
    assert KEY not in stored
    with closing(Fleet(address)) as fleet:
        with pytest.raises(CommandRejected, match="is already completed"):
            fleet.cancel("late")
        [slot] = [each for each in fleet.workers() if each.state != "lost"]
    assert (slot.name, slot.state) == ("a", "ready")


def rookery(machine: Machine, *words: str) -> str:
    """The output of a command that succeeds."""
    done = run_program(FLEET_COMMAND, *words, **machine.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def everything_in(address: str) -> str:
    """Every row of every table, as text; bytes as what they spell."""
    with connect(address) as database:
        tables = database.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables "
            "where schemaname in ('rookery', 'dbos')"
        ).fetchall()
        rows = [row for (name,) in tables for row in database.execute(f"select * from {name}")]
    return repr(rows)


def test_a_lost_worker_is_taken_over_from_its_last_checkpoint(
    address: str, remote: Path, start: Start
):
    lost = start("a", SLOW, *AUTO)
    lost.wait_until_ready()
    submit(address, "s1", remote)
    wait_until_both_calls_are_pushed(address, "s1", remote)
    lost.kill()
    start("b", SCRIPT, *AUTO).wait_until_ready()
    ended = wait(address, "s1")
    assert (ended.state, ended.result) == ("completed", "Done.")
    assert ended.worker.startswith("b/")
    assert pushed_files(address, "s1", remote) == FILES
    found = events(address, "s1")
    assert set(calls_done(found).values()) == {1}
    assert not any("may be lost" in text for text in messages(found))
    with closing(Fleet(address)) as fleet:
        assert {each.name: each.state for each in fleet.workers()} == {"a": "lost", "b": "ready"}


def messages(found: Sequence[Event]) -> list[str]:
    return [e.fact.text for e in found if isinstance(e.fact, Answered)]


def test_changes_lost_with_a_worker_are_reported_in_the_session(
    address: str, remote: Path, start: Start
):
    lost, other = start("a", SLOW, *AUTO), start("b", SCRIPT, *AUTO)
    lost.wait_until_ready()
    nowhere = f'[url "/nowhere"]\n\tpushInsteadOf = {remote}\n'
    (Path(lost.environ["HOME"]) / ".gitconfig").write_text(nowhere)
    other.wait_until_ready()
    other.signal(signal.SIGSTOP)
    submit(address, "s1", remote)
    with closing(Fleet(address)) as fleet:
        until(lambda: calls_ended(fleet.events("s1")) == 2)
    lost.kill()
    other.signal(signal.SIGCONT)
    ended = wait(address, "s1")
    assert (ended.state, ended.result) == ("completed", "Done.")
    [said] = [text for text in messages(events(address, "s1")) if "may be lost" in text]
    assert "changes to one.txt" in said
    assert "echo two" in said
    assert pushed_files(address, "s1", remote) == {"readme.txt": "Read me."}


def test_a_worker_that_was_only_slow_cannot_write_any_more(
    address: str, remote: Path, start: Start
):
    slow = start("a", SLOW.replace("600", "3"), *AUTO)
    before = slow.wait_until_ready()
    submit(address, "s1", remote)
    wait_until_both_calls_are_pushed(address, "s1", remote)
    slow.signal(signal.SIGSTOP)
    start("b", SCRIPT, *AUTO).wait_until_ready()
    ended = wait(address, "s1")
    assert (ended.state, ended.worker[:2]) == ("completed", "b/")
    found = events(address, "s1")
    slow.signal(signal.SIGCONT)
    again = slow.wait_until_ready()
    assert again != before
    assert "Restarting the slot." in slow.log.read_text()
    assert events(address, "s1") == found
    assert set(calls_done(found).values()) == {1}
    with closing(Fleet(address)) as fleet:
        assert fleet.session("s1") == ended


def test_questions_labels_cancellation_and_draining(address: str, remote: Path, start: Start):
    first = start("a", SCRIPT, "--permission-mode", "edits")
    first.wait_until_ready()
    submit(address, "s1", remote, level="auto")  # more than the worker allows
    asked = wait(address, "s1")
    assert asked.state == "waiting"
    assert "echo two" in asked.question
    with closing(Fleet(address)) as fleet:
        fleet.answer("s1", Given(reply="yes"))
        until(lambda: fleet.session("s1").state != "waiting")
        ended = fleet.wait("s1", 60)
        assert (ended.state, ended.result) == ("completed", "Done.")
        assert pushed_files(address, "s1", remote) == FILES

        submit(address, "s2", remote)
        assert fleet.wait("s2", 60).state == "waiting"
        fleet.cancel("s2")
        until(lambda: fleet.session("s2").state == "cancelled")

        submit(address, "s3", remote)
        assert fleet.wait("s3", 60).state == "waiting"
        start("b", SLOW, *AUTO, "--label", "gpu").wait_until_ready()
        assert first.drain() == 0
        assert [each.name for each in fleet.workers()] == ["b"]
        fleet.answer("s3", Given(reply="yes"))
        until(lambda: fleet.session("s3").worker.startswith("b/"))
        wait_until_both_calls_are_pushed(address, "s3", remote)
        fleet.cancel("s3")
        until(lambda: fleet.session("s3").state == "cancelled")

        submit(address, "s4", remote, label="gpu", timeout=1)
        ended = fleet.wait("s4", 60)
        assert (ended.state, ended.code) == ("failed", "timeout")
        submit(address, "s5", remote, label="none such")
        assert fleet.session("s5").state == "queued"
        fleet.cancel("s5")
        assert fleet.session("s5").state == "cancelled"


def test_a_session_of_a_lost_worker_can_be_cancelled(address: str, remote: Path, start: Start):
    lost = start("a", SLOW, *AUTO)
    lost.wait_until_ready()
    submit(address, "s1", remote)
    with closing(Fleet(address)) as fleet:
        until(lambda: fleet.session("s1").state == "running")
        lost.kill()
        fleet.cancel("s1")
        start("b", SLOW, *AUTO).wait_until_ready()
        until(lambda: fleet.session("s1").state == "cancelled")


def test_a_session_that_begins_while_it_is_cancelled_ends(address: str, remote: Path, start: Start):
    worker = start("a", SLOW, *AUTO)
    worker.wait_until_ready()
    worker.signal(signal.SIGSTOP)
    submit(address, "s1", remote)
    locks = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    with connect(address) as database, closing(Fleet(address)) as fleet:
        with ThreadPoolExecutor(1) as pool, connect(address) as lock:
            lock.execute("set idle_in_transaction_session_timeout = 0")
            lock.execute("begin")
            # rows can be read, and not written: both see that the session is queued
            lock.execute("lock table rookery.sessions in share mode")
            done = pool.submit(fleet.cancel, "s1")
            until(lambda: database.execute(locks).fetchone() == (1,))
            worker.signal(signal.SIGCONT)
            until(lambda: database.execute(locks).fetchone() == (2,))
            lock.execute("rollback")
            done.result()
        until(lambda: fleet.session("s1").worker and fleet.session("s1").state == "cancelled")
        until(lambda: not any(each.session for each in fleet.workers() if each.state == "ready"))
        assert fleet.session("s1").state == "cancelled"


def test_orders_that_no_worker_could_read_are_refused_and_bytes_that_are_no_text_are_replaced(
    address: str, remote: Path, start: Start
):
    start("a", SCRIPT, *AUTO).wait_until_ready()
    order = SessionOrder(session_id="s1", text="caf\udce9", repo=str(remote), ref="main")
    with closing(Fleet(address)) as fleet:
        for seconds in (float("inf"), float("nan")):
            with pytest.raises(CommandRejected, match="must be a number of seconds"):
                fleet.submit(replace(order, timeout=seconds))
        with pytest.raises(CommandRejected, match="The task is empty"):
            fleet.submit(replace(order, text=" "))
        with pytest.raises(CommandRejected, match="No such session"):
            fleet.session("s\udce9")
        fleet.submit(order)
        ended = fleet.wait("s1", 60)
        assert (ended.state, ended.text) == ("completed", "caf\ufffd")
        fleet.submit(order)  # sent twice
        with pytest.raises(CommandRejected, match="already exists with another task"):
            fleet.submit(replace(order, text="Something else"))


def test_a_worker_that_is_drained_while_a_slot_restarts_ends(start: Start):
    worker = start("a", SCRIPT)
    worker.wait_until_ready()
    [slot] = worker.processes()
    os.kill(slot, signal.SIGKILL)
    until(lambda: slot not in worker.processes())
    assert worker.drain() == 0


ASKS_TWICE = """
- calls: [{tool: ask_followup_question, arguments: {question: "First?", follow_up: [{text: a}]}}]
- calls: [{tool: ask_followup_question, arguments: {question: "Second?", follow_up: [{text: b}]}}]
- say: Done.
"""


def test_a_question_is_answered_once_and_a_second_answer_is_for_no_other_question(
    address: str, remote: Path, start: Start
):
    worker = start("a", ASKS_TWICE, *AUTO)
    worker.wait_until_ready()
    submit(address, "s1", remote)
    asked = run_program(FLEET_COMMAND, "fleet", "wait", "s1", **worker.environ).stderr
    worker.signal(signal.SIGSTOP)
    with closing(Fleet(address)) as fleet, connect(address) as database:
        copied = f"rookery fleet answer s1 TEXT --digest {fleet.session('s1').digest}"
        assert asked == f"The session asks: First?\n- a\nTo answer: {copied}\n"
        seq = database.execute("select seq from rookery.journals").fetchone() or (0,)
        fleet.answer("s1", Given(reply="message", text="a"))
        with pytest.raises(CommandRejected, match="it has no question"):
            fleet.answer("s1", Given(reply="message", text="a"))
        fleet._send("s1", Given(reply="message", text="a", seq=seq[0]))  # at the same moment
        worker.signal(signal.SIGCONT)
        assert "Second?" in fleet.wait("s1", 60).question
        fleet.answer("s1", Given(reply="message", text="b"))
        assert fleet.wait("s1", 60).state == "completed"
    assert [text for text in messages(events(address, "s1")) if text in "ab" and text] == ["a", "b"]


def test_no_more_sessions_of_one_repository_run_at_once_than_the_limit(
    address: str, remote: Path, start: Start, tmp_path: Path
):
    for name in ("a", "b"):
        start(name, SLOW, *AUTO, "--project-limit", "1").wait_until_ready()
    other = new_remote(tmp_path / "other")
    for session_id, repository in (("s1", remote), ("s2", remote), ("s3", other)):
        submit(address, session_id, repository)
    with closing(Fleet(address)) as fleet:
        until(lambda: fleet.session("s1").state == fleet.session("s3").state == "running")
        assert fleet.session("s2").state == "queued"
        fleet.cancel("s1")
        until(lambda: fleet.session("s2").state == "running")


def test_the_time_of_a_session_goes_by_the_clock_of_the_database(address: str):
    order = SessionOrder(session_id="s1", text="Go", repo="r", ref="main", timeout=1000)
    with closing(FleetDatabase(address, "test")) as database:
        database.execute(
            "insert into rookery.sessions (task, label, repo, ref, text, state, created) "
            "values ('s1', '', 'r', 'main', 'Go', 'queued', now() - interval '900 seconds')"
        )
        assert 0 < (seconds_left(database, order) or 0) <= 100
        assert seconds_left(database, replace(order, timeout=800)) == 0
        assert seconds_left(database, replace(order, timeout=0)) is None


def test_connections_of_machines_that_are_gone_end_and_options_of_the_address_count(address: str):
    with connect(address) as database:
        assert database.execute("show idle_in_transaction_session_timeout").fetchone() == ("10s",)
        assert database.execute("show tcp_user_timeout").fetchone() == ("10000",)
    options = "-c%20idle_in_transaction_session_timeout%3D7s%20-c%20geqo%3Doff"
    with connect(f"{address}?options={options}&connect_timeout=3") as database:
        assert database.execute("show idle_in_transaction_session_timeout").fetchone() == ("7s",)
        assert database.execute("show geqo").fetchone() == ("off",)


POINTS = (
    "fleet.pushed:2",
    "fleet.pushed:1",
    "fleet.checked_out:1",
    "journal.written:6",
    "journal.before_write:9",
)


@pytest.mark.parametrize("point", POINTS if TORTURE else POINTS[:1])
def test_a_slot_killed_at_a_point_is_continued_elsewhere(
    point: str, address: str, remote: Path, start: Start
):
    killed = start("a", AGAIN, *AUTO, killpoint=point)
    killed.wait_until_ready()
    submit(address, "s1", remote)
    killed.wait_until_ready()  # it is started anew
    killed.kill()
    start("b", AGAIN, *AUTO).wait_until_ready()
    ended = wait(address, "s1")
    assert (ended.state, ended.result) == ("completed", "Done."), ended
    started = Counter(
        e.fact.call_id for e in events(address, "s1") if isinstance(e.fact, ToolStarted)
    )
    assert set(started.values()) == {1}
