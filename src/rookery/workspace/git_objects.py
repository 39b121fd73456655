"""Whether a repository has an object. No git is run, and nothing is unpacked."""

import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress

from rookery.workspace.git_folders import entries, regular_content

_HEAD = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_AT = len(_HEAD)
_IDS_AT = _FANOUT_AT + 256 * 4
_LONGEST_LIST = 64 * 1024


def has_object(objects: str, wanted: str) -> bool:
    """Whether it is in a folder of objects, or in one to which that leads."""
    return any(_is_in(folder, wanted) for folder in (objects, *_alternates(objects)))


def _is_in(objects: str, wanted: str) -> bool:
    if os.path.isfile(os.path.join(objects, wanted[:2], wanted[2:])):
        return True
    packs = entries(os.path.join(objects, "pack"))
    return any(_is_listed(each, bytes.fromhex(wanted)) for each in packs if each.endswith(".idx"))


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
