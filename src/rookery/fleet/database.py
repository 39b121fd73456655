"""The fleet's database: its tables, connections to it, its errors as sentences, and the managers
that want to see a session.

Addresses are libpq's, so TLS and client certificates are set in the address or by `PGSSLMODE` and
its relatives. DBOS keeps its own tables in the schema `dbos` of the same database.
"""

import hashlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import quote

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from rookery.errors import StorageError

CONNECT_SECONDS = 5
_TABLES_LOCK = 0x526F6F6B
"""Two workers that start at once create the tables one after the other."""

_TABLES = """
create schema if not exists rookery;
create table if not exists rookery.journals (
    task text primary key,
    token bigint not null,
    holder text not null,
    expires timestamptz not null,
    seq integer not null default 0,
    size bigint not null default 0
);
create table if not exists rookery.events (
    task text not null references rookery.journals on delete cascade,
    seq integer not null,
    json bytea not null,
    primary key (task, seq)
);
create table if not exists rookery.checkpoints (
    task text primary key references rookery.journals on delete cascade,
    seq integer not null,
    commit text not null,
    ref text not null
);
create table if not exists rookery.sessions (
    task text primary key,
    label text not null,
    repo text not null,
    ref text not null,
    text text not null,
    state text not null,
    worker text not null default '',
    question text not null default '',
    digest text not null default '',
    result text not null default '',
    reason text not null default '',
    code text not null default '',
    cancelled boolean not null default false,
    created timestamptz not null default now()
);
create table if not exists rookery.workers (
    executor text primary key,
    name text not null,
    labels text[] not null,
    state text not null,
    session text not null default '',
    seen timestamptz not null default now(),
    digest text not null
);
create table if not exists rookery.watchers (
    task text not null,
    url text not null,
    fingerprint text not null,
    machine text not null,
    seen timestamptz not null default now(),
    primary key (task, url)
);
"""
_SILENCE = 10
"""Seconds after which the server ends a transaction, and either side the connection, of a machine
that was stopped or lost its network: it would hold locks that others wait for."""
_OPTIONS = {
    "idle_in_transaction_session_timeout": f"{_SILENCE}s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": f"{_SILENCE}s",
}


def connect(address: str, name: str = "") -> psycopg.Connection:
    """A connection on which every statement is its own transaction."""
    with reported("cannot be reached"):
        return psycopg.connect(
            watched(address),
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name=f"rookery {name}".strip(),
        )


def watched(address: str) -> str:
    """The address with what notices machines and networks that are gone, at both ends. Options
    of its own come later, so they count."""
    asked = conninfo_to_dict(address)
    given = str(asked.get("options") or "")
    options = " ".join([*(f"-c {name}={value}" for name, value in _OPTIONS.items()), given]).strip()
    added = {
        "keepalives_idle": "5",
        "keepalives_interval": "2",
        "keepalives_count": "3",
        "tcp_user_timeout": f"{_SILENCE}000",
    }
    missing = {name: value for name, value in added.items() if name not in asked}
    return with_parameters(address, {**missing, "options": options})


def with_parameters(address: str, added: Mapping[str, str]) -> str:
    base, _, query = address.partition("?")
    kept = [each for each in query.split("&") if each and each.partition("=")[0] not in added]
    given = [f"{name}={quote(value)}" for name, value in added.items()]
    return f"{base}?{'&'.join([*kept, *given])}"


def create_tables(connection: psycopg.Connection) -> None:
    """Create what is missing. Fails only if the role may not, and something is missing."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StorageError(
            f"The fleet's database has the encoding {encoding}; it must be UTF8. Create it with: "
            "create database fleet encoding 'UTF8' template template0"
        )
    with reported("has no tables of rookery, and they could not be created"):
        if _complete(connection):
            return
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", [_TABLES_LOCK])
            connection.execute(_TABLES)


def _complete(connection: psycopg.Connection) -> bool:
    names = [line.split()[5] for line in _TABLES.splitlines() if line.startswith("create table")]
    found = connection.execute(
        "select count(*) from unnest(%s::text[]) name where to_regclass(name) is not null", [names]
    ).fetchone()
    return found == (len(names),)


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Raise errors of the database as `StorageError`, without the address."""
    try:
        yield
    except psycopg.Error as error:
        raise StorageError(f"The fleet's database {what} ({reason(error)}).") from error


def reason(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says."""
    said = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return said.rstrip(".") or type(error).__name__


Values: TypeAlias = Sequence[Any] | Mapping[str, Any] | None


class FleetDatabase:
    """A connection that is made again when it was lost. For one thread."""

    def __init__(self, address: str, name: str) -> None:
        self._address = address
        self._name = name
        self._connection: psycopg.Connection | None = None

    def execute(self, statement: str, values: Values = None) -> psycopg.Cursor:
        """Raises `psycopg.Error` if the statement failed or its outcome is unknown, and
        `StorageError` if there is no connection."""
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._connection = connect(self._address, self._name)
        return self._connection.execute(statement, values)

    def ask(self, statement: str, values: Values = None) -> list[Any]:
        """The rows that a statement returns. Raises `StorageError`."""
        with reported("did not answer"):
            return self.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Statements in the context take effect together at its end, or not at all."""
        with reported("did not answer"):
            self.execute("select 1")
            assert self._connection
            with self._connection.transaction():
                yield

    def wait_for_news(self, seconds: float | None) -> None:
        """Wait for a notification. One that arrived since the last statement ends the wait too."""
        assert self._connection
        for _ in self._connection.notifies(timeout=seconds, stop_after=1):
            pass

    def close(self) -> None:
        if self._connection:
            self._connection.close()


WATCH_SECONDS = 15.0
"""How long a manager's request to watch a session is valid."""


class Watcher(Struct, frozen=True):
    """A manager that shows a session."""

    url: str
    fingerprint: str = ""
    """Of its certificate; empty without one, or if a certificate authority signed it."""
    machine: str = ""
    """The only machine that reaches the address; empty for any."""


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def this_machine() -> str:
    return socket.gethostname()


def watchers(database: FleetDatabase, session_id: str) -> list[Watcher]:
    """The managers that this machine reaches and that want to see a session."""
    found = database.execute(
        "select url, fingerprint, machine from rookery.watchers where task = %s "
        "and machine in ('', %s) and seen > now() - %s * interval '1 second'",
        [session_id, this_machine(), WATCH_SECONDS],
    ).fetchall()
    return [Watcher(*row) for row in found]
