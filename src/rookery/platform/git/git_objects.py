"""Whether a repository has an object. No git is run, and nothing is unpacked."""

import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rookery.platform.git.git_folders import entries, regular_content

_HEAD = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_AT = len(_HEAD)
_IDS_AT = _FANOUT_AT + 256 * 4
_LONGEST_LIST = 64 * 1024
_LARGEST_INDEX = 1024 * 1024 * 1024


def has_object(objects: str, wanted: str) -> bool:
    """Whether it is in a folder of objects, or in one to which that leads."""
    return any(True for _ in _files_with(objects, wanted))


def had_object(objects: str, wanted: str, before: int) -> bool:
    """Whether it was there before a time, in nanoseconds since the epoch. What a file says of
    its last change of status nobody can forge."""
    return any(os.stat(file).st_ctime_ns < before for file in _files_with(objects, wanted))


def has_all(objects: str, wanted: Iterable[str]) -> bool:
    """Whether all of them are in a folder of objects itself."""
    packs = (each for each in entries(os.path.join(objects, "pack")) if each.endswith(".idx"))
    packed = {known for each in packs for known in listed_objects(each)}
    return all(
        known in packed or os.path.isfile(os.path.join(objects, known[:2], known[2:]))
        for known in wanted
    )


def listed_objects(index: str) -> list[str]:
    """What the index of a pack lists; nothing if it cannot be read."""
    data = regular_content(index, _LARGEST_INDEX) or b""
    if data[:_FANOUT_AT] != _HEAD or len(data) < _IDS_AT:
        return []
    count = int.from_bytes(data[_IDS_AT - 4 : _IDS_AT], "big")
    return [data[at : at + 20].hex() for at in range(_IDS_AT, _IDS_AT + 20 * count, 20)]


def _files_with(objects: str, wanted: str) -> Iterator[str]:
    for folder in (objects, *_alternates(objects)):
        if os.path.isfile(loose := os.path.join(folder, wanted[:2], wanted[2:])):
            yield loose
        for each in entries(os.path.join(folder, "pack")):
            if each.endswith(".idx") and _is_listed(each, bytes.fromhex(wanted)):
                yield each


def _is_listed(index: str, wanted: bytes) -> bool:
    with (
        suppress(OSError, ValueError, IndexError, struct.error),
        open(index, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return data[:_FANOUT_AT] == _HEAD and _is_among(data, wanted)
    return False


def _is_among(data: mmap.mmap, wanted: bytes) -> bool:
    """Ids are sorted; a table says how many begin with each byte or a smaller one."""
    first = wanted[0]
    fanout = struct.unpack_from(">256I", data, _FANOUT_AT)
    low, high = (fanout[first - 1] if first else 0), fanout[first]
    size = len(wanted)

    def known(number: int) -> bytes:
        return data[_IDS_AT + size * number : _IDS_AT + size * (number + 1)]

    found = bisect_left(range(high), wanted, lo=low, key=known)
    return found < high and known(found) == wanted


def _alternates(objects: str) -> Iterator[str]:
    listed = regular_content(os.path.join(objects, "info", "alternates"), _LONGEST_LIST) or b""
    for line in listed.decode("utf-8", "surrogateescape").splitlines():
        if line and not line.startswith("#"):
            yield os.path.join(objects, line)
