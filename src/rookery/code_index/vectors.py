"""Vectors without a library for them.

Half-precision numbers are kept for comparing, and one bit of each for finding out with which it
is worthwhile: counting bits that differ takes a hundredth of the time.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from operator import mul

WORTHWHILE = 400


def packed(vector: Sequence[float]) -> bytes:
    """Of length one, so that a product of two is their cosine."""
    length = math.sqrt(math.fsum(map(mul, vector, vector))) or 1.0
    return struct.pack(f"<{len(vector)}e", *(number / length for number in vector))


def unpacked(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 2}e", data)


def signature(vector: Sequence[float]) -> bytes:
    """Which of the numbers are positive."""
    bits = sum(1 << place for place, number in enumerate(vector) if number > 0)
    return bits.to_bytes(-(-len(vector) // 8), "little")


def nearest_signatures(wanted: bytes, known: Iterable[tuple[int, bytes]]) -> list[int]:
    """The ids whose signatures differ least from the wanted one."""
    bits = int.from_bytes(wanted, "little")
    nearest = nsmallest(
        WORTHWHILE,
        (((int.from_bytes(each, "little") ^ bits).bit_count(), id) for id, each in known),
    )
    return [id for _, id in nearest]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other))
