"""Reading lines from pipes and files."""

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rookery.compat.driver import InputLost, input_lines

pytestmark = pytest.mark.anyio


async def lines_in(data: bytes, longest: int = 1000) -> list[bytes]:
    reading, writing = os.pipe()
    lines: list[bytes] = []
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_write, writing, data)
            lines += [line async for line in input_lines(reading, longest)]
    finally:
        os.close(reading)
    return lines


async def _write(writing: int, data: bytes) -> None:
    for at in range(0, len(data), 3):
        os.write(writing, data[at : at + 3])
        await anyio.lowlevel.checkpoint()
    os.close(writing)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\r\ntwo", [b"one", b"two"]),
        (b"\n \r\n\nx\n", [b"", b" ", b"", b"x"]),
        (b"a\rb\n", [b"a\rb"]),
        ("ü\u2028ü\x85\n".encode(), ["ü\u2028ü\x85".encode()]),
    ],
    ids=["nothing", "LF", "CRLF and no end", "blank lines count", "CR alone", "other line ends"],
)
async def test_lines_end_with_lf_or_crlf(data: bytes, lines: list[bytes]):
    assert await lines_in(data) == lines


async def test_only_the_beginning_of_an_overlong_line_is_kept():
    assert await lines_in(b"x" * 5000 + b"\nnext\n", 10) == [b"x" * 11, b"next"]


async def test_a_file_is_read_too(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"one\ntwo")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    assert [line async for line in input_lines(descriptor)] == [b"one", b"two"]
    os.close(descriptor)


async def test_many_lines_at_once_do_not_block_other_tasks():
    reading, writing = os.pipe()
    os.write(writing, b"\n" * 10_000)
    os.close(writing)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count_turns)
        assert len([line async for line in input_lines(reading)]) == 10_000
        group.cancel_scope.cancel()
    os.close(reading)
    assert turns >= 10_000 // 50


async def test_an_unreadable_input_is_reported_in_one_sentence(tmp_path: Path):
    for descriptor in (
        os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT),
        os.open(tmp_path, os.O_RDONLY),
    ):
        with pytest.raises(InputLost, match=r"Cannot read the input \(.*\)\. Give a readable pipe"):
            [line async for line in input_lines(descriptor)]
        os.close(descriptor)
