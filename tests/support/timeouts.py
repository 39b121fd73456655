"""For tests of work that could take for ever: they fail instead."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 60


@contextmanager
def patience() -> Iterator[None]:
    """Ends what is done in the main thread, be it in Python or in a regular expression."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"This takes more than {SECONDS} seconds.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
