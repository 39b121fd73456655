"""The framing of language servers' messages, and invalid ones."""

import pytest

from rookery.diagnostics.lsp_wire import LARGEST_MESSAGE, MessageReader, ServerGone, framed
from support.each_row import each_row

ONE, TWO = framed({"id": 1, "result": "ä"}), framed({"method": "window/logMessage"})


@each_row("size", [1, 7, 1000])
def test_messages_are_read_however_they_are_cut(size: int):
    reader, stream = MessageReader(), ONE + TWO + ONE
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    messages = [message for piece in pieces for message in reader.add(piece)]
    assert [message.get("id") for message in messages] == [1, None, 1]
    assert messages[0]["result"] == "ä"


def test_other_headers_and_letter_cases_are_accepted():
    body = b'{"id": 2}'
    head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: 9\r\n\r\n"
    assert MessageReader().add(head + body) == [{"id": 2}]


@each_row(
    "stream",
    [
        pytest.param(b"Welcome to the server.\r\n\r\n", id="a greeting"),
        pytest.param(b"x" * 10_000, id="an endless header"),
        pytest.param(b"Content-Length: -1\r\n\r\n", id="a negative size"),
        pytest.param(b"Content-Length: %d\r\n\r\n" % (LARGEST_MESSAGE + 1), id="too large"),
        pytest.param(b"Content-Length: 3\r\n\r\n{]}", id="not JSON"),
    ],
)
def test_anything_else_ends_the_connection(stream: bytes):
    with pytest.raises(ServerGone):
        MessageReader().add(stream)
