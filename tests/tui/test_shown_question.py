"""A letter that may be an answer waits for another one."""

from collections.abc import Callable

import pytest

from rookery.tui.shown_question import ANSWER_DELAY_SECONDS, LETTER_HOLD_SECONDS, HeldLetter


class Clockwork:
    """Timers that run out when they are told to."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._runs_out: Callable[[], None] | None = None

    def start(self, seconds: float, runs_out: Callable[[], None]) -> "Clockwork":
        self.seconds.append(seconds)
        self._runs_out = runs_out
        return self

    def stop(self) -> None:
        self._runs_out = None

    def run_out(self) -> None:
        if self._runs_out:
            self._runs_out()


@pytest.fixture
def clockwork() -> Clockwork:
    return Clockwork()


@pytest.fixture
def letter(clockwork: Clockwork) -> HeldLetter:
    return HeldLetter(clockwork.start)


def test_a_letter_acts_once_it_was_alone_for_long_enough(letter: HeldLetter, clockwork: Clockwork):
    acted: list[bool] = []
    letter.hold("y", lambda: acted.append(letter.is_waiting))
    assert letter.is_waiting
    clockwork.run_out()
    assert acted == [False]
    assert clockwork.seconds == [LETTER_HOLD_SECONDS]


def test_a_letter_that_was_dropped_never_acts(letter: HeldLetter, clockwork: Clockwork):
    acted: list[str] = []
    letter.hold("y", lambda: acted.append("y"))
    assert letter.drop() == "y"
    clockwork.run_out()
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
    ids=["right behind another", "the question takes none yet", "long after"],
)
def test_a_letter_right_behind_another_is_no_answer(
    letter: HeldLetter, pause: float, live: bool, in_a_word: bool
):
    assert not letter.is_part_of_word(10.0, live=live)
    assert letter.is_part_of_word(10.0 + pause, live=live) == in_a_word
    assert letter.locked_until == 10.0 + pause + ANSWER_DELAY_SECONDS


def test_whatever_comes_behind_a_letter_that_waits_makes_a_word(letter: HeldLetter):
    letter.hold("y", lambda: None)
    assert letter.is_part_of_word(1e9, live=False)
