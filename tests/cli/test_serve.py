"""Which clients a server accepts, queues or refuses."""

from contextlib import ExitStack
from functools import partial

import anyio
import pytest

from rookery.cli.serve import MOST_CLIENTS, MOST_PENDING, PendingClients, Seats

pytestmark = pytest.mark.anyio


def test_authenticated_clients_take_seats_and_release_them():
    seats = Seats()
    with ExitStack() as there:
        everybody = [there.enter_context(seats.reserve()) for _ in range(MOST_CLIENTS + 1)]
        for _ in range(2):  # to take one twice is to have one
            assert [take() for take in everybody] == [True] * MOST_CLIENTS + [False]
    with ExitStack() as there:
        assert there.enter_context(seats.reserve())()


async def test_the_oldest_unauthenticated_client_makes_room_for_a_new_one():
    clients = PendingClients()
    came = 0
    left: list[int] = []

    async def stay(number: int, *, known: bool) -> None:
        nonlocal came
        with clients.add() as pending:
            came += 1
            if known:
                clients.authenticated(pending)
            await anyio.sleep_forever()
        left.append(number)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(stay, 0, known=True))
        for number in range(1, MOST_PENDING + 3):
            group.start_soon(partial(stay, number, known=False))
        await anyio.wait_all_tasks_blocked()
        assert (came, left) == (MOST_PENDING + 3, [1, 2])
        group.cancel_scope.cancel()
