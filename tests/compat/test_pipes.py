"""Output to a reader that is slow or gone."""

import os
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest

from rookery.compat.driver import PIECE, OutputQueue

MUCH = "Grüße\n" * 50_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def drained(reading: int) -> bytes:
    os.set_blocking(reading, False)
    read = b""
    try:
        while data := os.read(reading, 1 << 20):
            read += data
    except BlockingIOError:
        pass
    return read


def test_a_flush_reaches_the_reader_at_once(pipe: tuple[int, int]):
    box = OutputQueue(pipe[1])
    box.write("Grüße\n")
    box.flush()
    assert drained(pipe[0]) == "Grüße\n".encode()


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_slow_reader_blocks_nothing_and_loses_nothing(
    pipe: tuple[int, int], blocking: bool
):
    os.set_blocking(pipe[1], blocking)
    box = OutputQueue(pipe[1])
    read = b""
    async with anyio.create_task_group() as group:
        group.start_soon(box.run)
        for _ in range(2):
            box.write(MUCH)
            box.flush()
        while len(read) < 2 * len(MUCH.encode()):
            await anyio.wait_readable(pipe[0])
            read += os.read(pipe[0], PIECE)
        group.cancel_scope.cancel()
    assert read == 2 * MUCH.encode()


def test_the_final_write_waits_for_the_reader_but_not_forever(pipe: tuple[int, int]):
    box = OutputQueue(pipe[1])
    box.write(MUCH)
    box.empty(0.05)
    taken = drained(pipe[0])
    box.empty(0.05)
    assert taken + drained(pipe[0]) == MUCH.encode()[: len(taken) * 2]


@pytest.mark.anyio
async def test_a_closed_reader_is_detected(pipe: tuple[int, int]):
    box = OutputQueue(pipe[1])
    box.write(MUCH)
    box.flush()
    os.close(pipe[0])
    with pytest.raises(BrokenPipeError):
        await box.run()


def test_a_file_takes_everything(tmp_path: os.PathLike[str]):
    descriptor = os.open(os.path.join(tmp_path, "out"), os.O_WRONLY | os.O_CREAT)
    box = OutputQueue(descriptor)
    box.write(MUCH)
    box.flush()
    os.close(descriptor)
    with open(os.path.join(tmp_path, "out"), "rb") as file:
        assert file.read() == MUCH.encode()
