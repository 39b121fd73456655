"""A letter that may answer a question waits until no other letter follows."""

from collections.abc import Callable

import pytest

from rookery.tui.shown_question import ANSWER_DELAY_SECONDS, LETTER_HOLD_SECONDS, HeldLetter


class ManualTimer:
    """A timer that the test runs out."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._runs_out: Callable[[], None] | None = None

    def start(self, seconds: float, runs_out: Callable[[], None]) -> "ManualTimer":
        self.seconds.append(seconds)
        self._runs_out = runs_out
        return self

    def stop(self) -> None:
        self._runs_out = None

    def run_out(self) -> None:
        if self._runs_out:
            self._runs_out()


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def letter(timer: ManualTimer) -> HeldLetter:
    return HeldLetter(timer.start)


def test_a_single_letter_acts_after_the_hold_time(letter: HeldLetter, timer: ManualTimer):
    acted: list[bool] = []
    letter.hold("y", lambda: acted.append(letter.is_waiting))
    assert letter.is_waiting
    timer.run_out()
    assert acted == [False]
    assert timer.seconds == [LETTER_HOLD_SECONDS]


def test_a_dropped_letter_never_acts(letter: HeldLetter, timer: ManualTimer):
    acted: list[str] = []
    letter.hold("y", lambda: acted.append("y"))
    assert letter.drop() == "y"
    timer.run_out()
    assert acted == []
    assert not letter.is_waiting
    assert letter.drop() == ""


@pytest.mark.parametrize(
    ("pause", "live", "in_a_word"),
    [
        (ANSWER_DELAY_SECONDS / 2, True, True),
        (ANSWER_DELAY_SECONDS / 2, False, False),
        (ANSWER_DELAY_SECONDS * 2, True, False),
    ],
    ids=["right after another", "question not ready", "long after"],
)
def test_a_letter_right_after_another_is_not_an_answer(
    letter: HeldLetter, pause: float, live: bool, in_a_word: bool
):
    assert not letter.is_part_of_word(10.0, live=live)
    assert letter.is_part_of_word(10.0 + pause, live=live) == in_a_word
    assert letter.locked_until == 10.0 + pause + ANSWER_DELAY_SECONDS


def test_any_letter_after_a_held_one_makes_a_word(letter: HeldLetter):
    letter.hold("y", lambda: None)
    assert letter.is_part_of_word(1e9, live=False)
