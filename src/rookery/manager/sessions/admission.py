"""Whose turn it is: so many sessions run at once, and so many processes are kept."""

from collections import deque
from collections.abc import Mapping

from rookery.manager.sessions.supervised_session import SupervisedSession

USUAL_LIMIT, HIGHEST_LIMIT = 5, 32
"""Of sessions that run at once."""


class Admission:
    def __init__(self, sessions: Mapping[str, SupervisedSession], limit: int) -> None:
        self._sessions = sessions
        self.limit = min(max(1, limit), HIGHEST_LIMIT)
        self._queue: deque[SupervisedSession] = deque()

    def queue(self, session: SupervisedSession) -> None:
        self._queue.append(session)

    @property
    def has_queue(self) -> bool:
        return any(each.is_queued for each in self._queue)

    def admit(self) -> None:
        """Whoever waits longest, while there is room. Processes that rest make room for others.

        A session that waits for a person leaves its turn to others, but keeps its process: of
        processes there are never more than the highest limit."""
        self._queue = deque(each for each in self._queue if each.is_queued)
        sessions = self._sessions.values()
        room = self.limit - sum(each.is_running for each in sessions)
        room = min(room, HIGHEST_LIMIT - sum(each.keeper.has_process for each in sessions))
        while self._queue and room > 0:
            room -= 1
            self._queue.popleft().launch()
        self._retire_the_idle()

    def _retire_the_idle(self) -> None:
        """As many processes are kept as may run, the longest at rest go first."""
        sessions = [each for each in self._sessions.values() if each.keeper.has_process]
        idle = sorted(
            (each for each in sessions if each.is_idle), key=lambda each: each.record.end_time or 0
        )
        for session in idle[: max(0, len(sessions) - self.limit)]:
            session.keeper.retire()
