"""Messages arrive whole and in order, however the bytes are cut."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from hypothesis import given
from hypothesis import strategies as st

from rookery.protocol.channels import ChannelEnded, DescriptorStream, LineChannel, TooLong

pytestmark = pytest.mark.anyio


class Cut(ByteStream):
    """A byte stream that delivers the given pieces and then ends."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = list(pieces)
        self.sent = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._pieces:
            raise anyio.EndOfStream
        return self._pieces.pop(0)

    async def send(self, item: bytes) -> None:
        self.sent += item

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


async def all_of(channel: LineChannel) -> list[bytes | type[TooLong]]:
    received: list[bytes | type[TooLong]] = []
    while True:
        try:
            received.append(await channel.receive())
        except TooLong:
            received.append(TooLong)
        except ChannelEnded:
            return received


@given(st.data())
def test_lines_are_complete_wherever_the_stream_is_cut(data: st.DataObject):
    text = b"one\ntwo two\r\n\n   \nthree\nunfini"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert anyio.run(all_of, LineChannel(Cut(pieces))) == [b"one", b"two two\r", b"three"]


@given(st.integers(1, 40), st.integers(0, 60))
def test_only_an_overlong_line_is_skipped(piece: int, length: int):
    text = b"short\n" + b"x" * length + b"\nnext\n"
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    middle = [] if not length else [TooLong if length > 20 else b"x" * length]
    assert anyio.run(all_of, LineChannel(Cut(pieces), 20)) == [b"short", *middle, b"next"]


async def test_an_endless_line_uses_bounded_memory():
    channel = LineChannel(Cut([b"x" * 100] * 10_000 + [b"\nnext\n"]), 1_000)
    with pytest.raises(TooLong):
        await channel.receive()
    assert await channel.receive() == b"next"


@asynccontextmanager
async def pipes() -> AsyncIterator[tuple[DescriptorStream, DescriptorStream]]:
    one_reads, two_writes = os.pipe()
    two_reads, one_writes = os.pipe()
    yield DescriptorStream(one_reads, one_writes), DescriptorStream(two_reads, two_writes)
    for descriptor in (one_reads, one_writes, two_reads):
        os.close(descriptor)


async def test_pipes_carry_more_than_their_buffer():
    async with pipes() as (near, far):
        big = b"x" * 1_000_000
        async with anyio.create_task_group() as group:
            group.start_soon(LineChannel(near).send, [big, b"then"])
            channel = LineChannel(far)
            assert await channel.receive() == big
            assert await channel.receive() == b"then"
        os.close(far._writes)
        with pytest.raises(ChannelEnded):
            await LineChannel(near).receive()


async def test_a_plain_file_can_be_standard_input_and_output(tmp_path: Path):
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    with (tmp_path / "in").open("rb") as reads, (tmp_path / "out").open("wb") as writes:
        channel = LineChannel(DescriptorStream(reads.fileno(), writes.fileno()))
        assert [await channel.receive(), await channel.receive()] == [b"one", b"two"]
        await channel.send([b"three"])
        with pytest.raises(ChannelEnded):
            await channel.receive()
    assert (tmp_path / "out").read_bytes() == b"three\n"


async def test_the_empty_device_can_be_standard_input_and_output():
    nothing = os.open(os.devnull, os.O_RDWR)
    channel = LineChannel(DescriptorStream(nothing, nothing))
    await channel.send([b"one"])
    with pytest.raises(ChannelEnded):
        await channel.receive()
    os.close(nothing)


async def test_writing_to_a_pipe_without_a_reader_ends_the_channel():
    reads, writes = os.pipe()
    os.close(reads)
    with pytest.raises(ChannelEnded):
        await LineChannel(DescriptorStream(writes, writes)).send([b"x"])
    os.close(writes)
