import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.blocks import ImageFacts, image_facts
from support.each_row import each_row

SIZE = (800, 600)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", *SIZE) + b"\x08\x02\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", *SIZE) + b"\0\0\0"
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    b"\xff\xff\xc4\x00\x04ab"
    b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 600, 800) + b"\x01\x01\x11\0"
)
WEBP = b"RIFF\0\0\0\0WEBP"
LOSSY = WEBP + b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 800 | 0x4000, 600)
LOSSLESS = WEBP + b"VP8L\0\0\0\0\x2f" + struct.pack("<I", 799 | 599 << 14)
EXTENDED = WEBP + b"VP8X\x0a\0\0\0\0\0\0\0" + b"\x1f\x03\0" + b"\x57\x02\0"
BMP = b"BM" + bytes(12) + struct.pack("<Iii", 40, 800, -600)
ICO = b"\0\0\1\0\2\0" + bytes(32)
TIFF, BIG_TIFF = b"II*\0\x08\0\0\0\2\0", b"MM\0*\0\0\0\x08\0\2"
AVIF = b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf\0\0\0\x14ispe"
KNOWN = [
    pytest.param(PNG, "PNG", "image/png", SIZE, id="png"),
    pytest.param(GIF, "GIF", "image/gif", SIZE, id="gif"),
    pytest.param(JPEG, "JPEG", "image/jpeg", SIZE, id="jpeg"),
    pytest.param(LOSSY, "WebP", "image/webp", SIZE, id="webp lossy"),
    pytest.param(LOSSLESS, "WebP", "image/webp", SIZE, id="webp lossless"),
    pytest.param(EXTENDED, "WebP", "image/webp", SIZE, id="webp extended"),
    pytest.param(BMP, "BMP", "image/bmp", (0, 0), id="bmp"),
    pytest.param(ICO, "ICO", "image/x-icon", (0, 0), id="ico"),
    pytest.param(TIFF, "TIFF", "image/tiff", (0, 0), id="tiff"),
    pytest.param(BIG_TIFF, "TIFF", "image/tiff", (0, 0), id="tiff, the other way round"),
    pytest.param(AVIF, "AVIF", "image/avif", (0, 0), id="avif"),
]


@each_row(("data", "name", "media_type", "size"), KNOWN)
def test_a_header_gives_the_type_and_size_of_an_image(
    data: bytes, name: str, media_type: str, size: tuple[int, int]
):
    assert image_facts(data) == ImageFacts(name, media_type, *size)
    assert image_facts(data + bytes(1000)) == ImageFacts(name, media_type, *size)


@each_row(("data", "name", "media_type", "size"), KNOWN)
def test_a_truncated_header_gives_no_size_or_the_right_one(
    data: bytes, name: str, media_type: str, size: tuple[int, int]
):
    for end in range(len(data)):
        facts = image_facts(data[:end])
        assert facts in (None, ImageFacts(name, media_type), ImageFacts(name, media_type, *size))


@each_row(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"BMW is a maker of cars\0", id="words that begin like a bitmap"),
        pytest.param(b"\0\0\1\0\0\0", id="icon of nothing"),
        pytest.param(b"RIFF\0\0\0\0WAVE", id="sound"),
        pytest.param(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", id="film"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", id="svg is text"),
    ],
)
def test_other_data_is_not_an_image(data: bytes):
    assert image_facts(data) is None


MARKS = [PNG[:16], GIF[:6], JPEG[:4], LOSSY[:16], LOSSLESS[:20], BMP[:18], ICO[:6], TIFF[:4], AVIF]


@given(mark=st.sampled_from([b"", *MARKS]), rest=st.binary(max_size=300))
def test_any_header_is_parsed_without_an_error(mark: bytes, rest: bytes):
    facts = image_facts(mark + rest)
    assert facts is None or (facts.width > 0) is (facts.height > 0)


def test_a_jpeg_with_only_segments_is_parsed_quickly():
    assert image_facts(b"\xff\xd8" + b"\xff\xe0\0\2" * 1_000_000) == ImageFacts(
        "JPEG", "image/jpeg"
    )
