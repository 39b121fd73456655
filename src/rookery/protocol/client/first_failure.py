"""Ends what is shown with the first request that failed, for runs that end with it."""

from rookery.core.facts import Event, RequestFailed
from rookery.protocol.client.attend import Display, Leave
from rookery.protocol.client.non_interactive import first_failure
from rookery.protocol.client.outcomes import code_of_request


class UntilFirstFailure:
    """A display that is told nothing more after it: another try may be announced before the run
    has come to its end, and then there is none."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._over = False

    def show(self, event: Event) -> None:
        if not self._over:
            self._display.show(event)
        self._over = self._over or leave_at_failure(event) is not None

    def show_of_child(self, task_id: str, event: Event) -> None:
        if not self._over:
            self._display.show_of_child(task_id, event)
        self._over = self._over or leave_at_failure(event) is not None


def leave_at_failure(event: Event) -> Leave | None:
    leave = first_failure(event)
    if leave and isinstance(event.fact, RequestFailed):
        return Leave(leave.reason, code_of_request(event.fact))
    return None
