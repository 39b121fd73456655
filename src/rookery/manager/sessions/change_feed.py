"""Which sessions changed, for as many as want to know. Whoever is slow is told at once of more."""

from collections.abc import AsyncIterator, Iterable

import anyio


class Changes:
    def __init__(self) -> None:
        self._followers: list[_Follower] = []

    def note(self, session_id: str) -> None:
        for follower in self._followers:
            follower.note(session_id)

    async def follow(self, there: Iterable[str]) -> AsyncIterator[frozenset[str]]:
        """First all that are there, then those that changed since the last look."""
        follower = _Follower()
        self._followers.append(follower)
        try:
            yield frozenset(there)
            while True:
                yield await follower.take()
        finally:
            self._followers.remove(follower)


class _Follower:
    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._news = anyio.Event()

    def note(self, session_id: str) -> None:
        self._changed.add(session_id)
        self._news.set()

    async def take(self) -> frozenset[str]:
        await self._news.wait()
        self._news = anyio.Event()
        changed, self._changed = frozenset(self._changed), set()
        return changed
