"""Time limits for tests of work that could take forever."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 60


@contextmanager
def patience() -> Iterator[None]:
    """Interrupts the main thread after a while, even in a regular expression."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"This takes more than {SECONDS} seconds.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
