"""One interface to the two stores of a session's log, files and PostgreSQL, for their tests."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rookery.core.facts import Event
from rookery.engine.ports.hooks import LogStore
from rookery.fleet.database import connect
from rookery.fleet.journal import PostgresJournals
from rookery.storage.journal import Journal, read_events


class Filling(Protocol):
    def create(self, name: str) -> LogStore: ...
    def open(self, name: str) -> LogStore: ...
    def read(self, name: str) -> list[Event]: ...

    def take_over(self, name: str) -> LogStore:
        """Open the log of a writer that was killed."""
        ...

    def close(self) -> None: ...


class FileFilling:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, name: str) -> LogStore:
        return Journal.create(self._folder / name)

    def open(self, name: str) -> LogStore:
        return Journal.open(self._folder / name)

    take_over = open

    def close(self) -> None:
        pass

    def read(self, name: str) -> list[Event]:
        return list(read_events(self._folder / name))


class PostgresFilling:
    def __init__(self, address: str, holder: str, lease: float = 60) -> None:
        self._address = address
        self._logs = PostgresJournals(address, holder, lease)
        self.create: Callable[[str], LogStore] = self._logs.create
        self.open: Callable[[str], LogStore] = self._logs.open

    def close(self) -> None:
        self._logs.close()

    def take_over(self, name: str) -> LogStore:
        with connect(self._address) as database:
            holders = database.execute("select holder from rookery.journals").fetchall()
        for (holder,) in holders:
            self._logs.fence(holder)
        return self._logs.open(name)

    def read(self, name: str) -> list[Event]:
        return self._logs.read(name)


def filling(where: str) -> Filling:
    """The store at an address or in a folder, for this process."""
    if where.startswith("postgresql://"):
        return PostgresFilling(where, f"process {os.getpid()} on here")
    return FileFilling(Path(where))
