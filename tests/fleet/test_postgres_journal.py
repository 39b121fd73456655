"""What the log in PostgreSQL promises beyond the tests that it shares with files in
tests/storage/test_journal.py and tests/faults/test_journal_faults.py."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from rookery.core.facts import TaskOpened, TaskReopened, Todo, TodosChanged, UserSpoke
from rookery.errors import StorageError
from rookery.fleet.database import connect, create_tables
from rookery.fleet.journal import PostgresJournals, TakenOver
from support.journal_writer import LARGE, numbered, write_all
from support.postgres import Postgres


@pytest.fixture
def first(address: str) -> Iterator[PostgresJournals]:
    with closing(PostgresJournals(address, "first")) as logs:
        yield logs


@pytest.fixture
def second(address: str) -> Iterator[PostgresJournals]:
    with closing(PostgresJournals(address, "second")) as logs:
        yield logs


SPOKEN = UserSpoke(message_id="m", text="\x00ü\u2028")
WAITING = TodosChanged(todos=(Todo(id="t", content="test"),))


def test_a_writer_that_was_taken_over_cannot_write_any_more(
    first: PostgresJournals, second: PostgresJournals
):
    slow = first.create("t")
    events = write_all(slow, [TaskOpened(text="Go")])
    late = numbered([WAITING, SPOKEN], events[-1])
    slow.write(late[0])
    second.fence("first")
    taken = second.open("t")
    assert taken.token > slow.token
    more = write_all(taken, [TaskReopened(), SPOKEN], events[-1])
    for _ in range(2):
        with pytest.raises(StorageError, match="Another worker has taken over session t"):
            slow.write(late[1])
    slow.close()
    assert second.read("t") == [*events, *more]
    write_all(taken, [SPOKEN], more[-1])
    taken.close()


def test_an_expired_lease_is_taken_and_a_renewed_one_is_not(address: str, second: PostgresJournals):
    with closing(PostgresJournals(address, "brief", lease=0)) as brief:
        slow = brief.create("t")
        events = write_all(slow, [TaskOpened(text="Go")])
        taken = second.open("t")
        with pytest.raises(TakenOver):
            write_all(slow, [SPOKEN], events[-1])
        taken.close()
    with closing(PostgresJournals(address, "renewing", lease=60)) as renewing:
        renewing.open("t")
        renewing.renew()
        with pytest.raises(StorageError, match="is open on renewing"):
            second.open("t")


def test_facts_that_may_wait_are_sent_with_the_next_one_that_may_not(
    first: PostgresJournals, second: PostgresJournals
):
    journal = first.create("t")
    events = write_all(journal, [TaskOpened(text="Go"), WAITING, WAITING])
    assert second.read("t") == events[:1]
    events += write_all(journal, [SPOKEN], events[-1])
    assert second.read("t") == events
    events += write_all(journal, [WAITING], events[-1])
    journal.close()
    assert second.read("t") == events


def test_a_lost_connection_is_made_again_and_no_event_is_written_twice(
    address: str, first: PostgresJournals
):
    journal = first.create("t")
    events = write_all(journal, [TaskOpened(text=LARGE)])
    with psycopg.connect(address, autocommit=True) as other:
        for _ in range(3):
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'rookery first'"
            )
            events += write_all(journal, [SPOKEN], events[-1])
    assert journal.read().events == events
    journal.close()


def test_a_restart_of_the_server_loses_nothing(postgres: Postgres, first: PostgresJournals):
    journal = first.create("t")
    events = write_all(journal, [TaskOpened(text="Go"), SPOKEN])
    postgres.stop()
    with pytest.raises(StorageError, match="is uncertain"):
        write_all(journal, [SPOKEN], events[-1])
    postgres.start()
    with pytest.raises(StorageError, match="is uncertain"):
        write_all(journal, [SPOKEN], events[-1])
    journal.close()
    first.fence("first")
    journal = first.open("t")
    assert journal.read().events == events
    events += write_all(journal, [SPOKEN], events[-1])
    journal.close()
    assert first.read("t") == events


def test_a_deleted_session_is_gone_and_an_open_one_stays(
    first: PostgresJournals, second: PostgresJournals
):
    journal = first.create("t")
    write_all(journal, [TaskOpened(text="Go")])
    with pytest.raises(StorageError, match="is open on first"):
        second.delete("t")
    journal.close()
    assert second.exists("t")
    second.delete("t")
    assert not second.exists("t")
    with pytest.raises(StorageError, match="No such session: t"):
        second.delete("t")


def test_a_database_that_cannot_store_all_texts_is_refused(postgres: Postgres):
    with psycopg.connect(postgres.address("postgres"), autocommit=True) as server:
        server.execute("create database ascii encoding 'SQL_ASCII' template template0")
    with (
        connect(postgres.address("ascii")) as database,
        pytest.raises(StorageError, match="encoding SQL_ASCII; it must be UTF8"),
    ):
        create_tables(database)
