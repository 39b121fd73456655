"""Who is let in by a server, and who has to wait or go."""

from contextlib import ExitStack
from functools import partial

import anyio
import pytest

from rookery.cli.serve import MOST_CLIENTS, MOST_STRANGERS, Seats, Strangers

pytestmark = pytest.mark.anyio


def test_seats_are_taken_by_those_who_are_known_and_given_back():
    seats = Seats()
    with ExitStack() as there:
        everybody = [there.enter_context(seats.later()) for _ in range(MOST_CLIENTS + 1)]
        for _ in range(2):  # to take one twice is to have one
            assert [seat.take() for seat in everybody] == [True] * MOST_CLIENTS + [False]
    with ExitStack() as there:
        assert there.enter_context(seats.later()).take()


async def test_whoever_stays_a_stranger_longest_goes_when_another_comes():
    strangers = Strangers()
    came = 0
    left: list[int] = []

    async def stay(number: int, *, known: bool) -> None:
        nonlocal came
        with strangers.one() as stranger:
            came += 1
            if known:
                stranger.is_known()
            await anyio.sleep_forever()
        left.append(number)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(stay, 0, known=True))
        for number in range(1, MOST_STRANGERS + 3):
            group.start_soon(partial(stay, number, known=False))
        await anyio.wait_all_tasks_blocked()
        assert (came, left) == (MOST_STRANGERS + 3, [1, 2])
        group.cancel_scope.cancel()
