"""Headers of model files: complete ones, cut ones and hostile ones."""

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.providers.gguf import GgufHeader, NotGguf, parse_header, read_header
from support.each_row import each_row
from support.timeouts import patience
from support.tiny_model import (
    CONTEXT,
    FRACTION,
    LIST,
    TEXT,
    Pair,
    a_list,
    a_text,
    facts,
    header,
    text,
    tiny_model,
    whole,
)

SMALL = header(facts(), [("token_embd.weight", (32, 1000), 0), ("output_norm.weight", (32,), 0)])
HUGE = 2**64 - 1


def test_a_header_describes_the_model(tmp_path: Path):
    assert read_header(tiny_model(tmp_path / "m.gguf")) == GgufHeader(
        architecture="llama",
        parameters=pytest.approx(0.000027, abs=1e-6),
        context=CONTEXT,
        token_bytes=128,
    )


@each_row(
    ("more", "billions"),
    [
        ({}, 0.000032032),
        ({"general.size_label": a_text("1.5B")}, 1.5),
        ({"general.name": a_text("Llama 3.2 3B Instruct")}, 3),
        ({"split.count": whole(3)}, 0),
        ({"general.size_label": whole(7)}, 0.000032032),
    ],
)
def test_the_size_is_the_labels_or_counted(more: Mapping[str, Pair], billions: float):
    tensors = [("token_embd.weight", (32, 1000), 0), ("output_norm.weight", (32,), 0)]
    assert parse_header(header(facts(more), tensors)).parameters == pytest.approx(billions)


def test_memory_of_a_token_counts_the_heads_that_are_shared():
    more = {
        "llama.block_count": whole(28),
        "llama.embedding_length": whole(1536),
        "llama.attention.head_count": whole(12),
        "llama.attention.head_count_kv": whole(2),
    }
    assert parse_header(header(facts(more), [])).token_bytes == 28 * 2 * (128 + 128) * 2


@each_row(
    ("data", "problem"),
    [
        (b"", "not a GGUF file"),
        (b"GGU", "not a GGUF file"),
        (b"\x7fELF", "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "format version is 1;"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "format version is"),
    ],
)
def test_other_files_are_refused(data: bytes, problem: str):
    with pytest.raises(NotGguf, match=problem):
        parse_header(data)


def _pairs(count: int, *reported: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, count) + b"".join(reported)


@each_row(
    "data",
    [
        _pairs(HUGE),
        _pairs(1, struct.pack("<Q", HUGE)),
        _pairs(1, text("general.name"), struct.pack("<IQ", TEXT, HUGE)),
        _pairs(1, text("general.name"), struct.pack("<I", 99)),
        _pairs(1, text("x"), struct.pack("<IIQ", LIST, TEXT, HUGE)),
        _pairs(1, text("x"), struct.pack("<IIQ", LIST, TEXT, HUGE), struct.pack("<Q", HUGE)),
        _pairs(1, text("x"), struct.pack("<IIQ", LIST, FRACTION, HUGE)),
        _pairs(1, text("x"), struct.pack("<IIQIQ", LIST, LIST, 1, LIST, 1)),
        header({}, [("t", [HUGE] * 9, 0)]),
        b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0),
    ],
)
def test_lying_counts_are_not_believed(data: bytes):
    assert parse_header(data) == GgufHeader()


def test_tensors_of_absurd_size_are_only_a_large_number():
    assert parse_header(header(facts(), [("t", [HUGE] * 4, 0)])).parameters > 1e60


def test_millions_of_empty_texts_are_passed_in_a_moment():
    data = _pairs(1, text("x"), struct.pack("<IIQ", LIST, TEXT, HUGE), bytes(32 * 1024 * 1024))
    with patience():
        assert parse_header(data) == GgufHeader()


def test_text_that_is_not_utf8_is_shown_with_marks():
    reported = _pairs(1, text("general.architecture"), struct.pack("<IQ", TEXT, 2), b"\xff\xfe")
    assert parse_header(reported).architecture == "��"


@given(st.integers(0, len(SMALL)))
def test_a_truncated_header_gives_less_and_nothing_wrong(size: int):
    whole_one = parse_header(SMALL)
    if size < 4:
        with pytest.raises(NotGguf):
            parse_header(SMALL[:size])
        return
    cut = parse_header(SMALL[:size])
    for field in ("architecture", "context", "parameters"):
        assert getattr(cut, field) in (getattr(whole_one, field), "", 0, False)


@given(st.data())
def test_a_damaged_header_is_read_or_refused(data: st.DataObject):
    reported = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 8))):
        reported[data.draw(st.integers(0, len(reported) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_header(bytes(reported))
    except NotGguf:
        return
    assert found.context >= 0
    assert found.token_bytes >= 0


@given(st.binary(max_size=300))
def test_noise_behind_the_mark_is_read_or_refused(noise: bytes):
    try:
        parse_header(b"GGUF\x03\x00\x00\x00" + noise)
    except NotGguf:
        pytest.fail("Its version is known.")


def test_a_list_instead_of_a_number_counts_as_unknown():
    more = {"llama.attention.head_count_kv": a_list(4, [struct.pack("<I", 2)])}
    assert parse_header(header(facts(more), [])).token_bytes == 128
