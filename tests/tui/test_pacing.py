"""How often a stream is redrawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.tui.task_controller import (
    FRAME_SECONDS,
    FRAME_SECONDS_WHILE_TYPING,
    TYPING_SECONDS,
    frame_delay,
)

LONG_AGO = -100.0
MOMENTS = st.floats(0.0, 1e6)


@pytest.mark.parametrize(
    ("last_at", "key_at", "wait"),
    [
        (LONG_AGO, LONG_AGO, None),
        (10.0, LONG_AGO, FRAME_SECONDS),
        (10.0, 10.0, FRAME_SECONDS_WHILE_TYPING),
        (10.0, 10.0 - TYPING_SECONDS, FRAME_SECONDS),
        (10.0 - FRAME_SECONDS / 2, LONG_AGO, FRAME_SECONDS / 2),
    ],
    ids=[
        "first frame",
        "right after a frame",
        "while typing",
        "typed before",
        "half the delay is over",
    ],
)
def test_a_frame_waits_after_the_last_one_and_longer_while_typing(
    last_at: float, key_at: float, wait: float | None
):
    found = frame_delay(10.0, last_at=last_at, key_at=key_at)
    assert found <= 0 if wait is None else found == pytest.approx(wait)


@given(last_at=MOMENTS, key_at=MOMENTS, since=st.floats(0.0, 10.0))
def test_no_frame_waits_longer_than_the_typing_delay(last_at: float, key_at: float, since: float):
    wait = frame_delay(last_at + since, last_at=last_at, key_at=key_at)
    assert wait <= FRAME_SECONDS_WHILE_TYPING + 1e-6
