"""Make permissions apply to root too, so that tests of them run everywhere.

Two capabilities let root read and write everything. The test process and its children drop them,
and keep all others.
"""

import ctypes
import os
import struct
import sys

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
_PR_CAPBSET_DROP = 24
_VERSION_3 = 0x20080522


def heed_access_rights() -> None:
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        _check(libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
    header = ctypes.create_string_buffer(struct.pack("Ii", _VERSION_3, 0))
    data = ctypes.create_string_buffer(24)
    _check(libc.capget(header, data))
    sets = list(struct.unpack("6I", data.raw[:24]))
    dropped = ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH) & 0xFFFFFFFF
    sets[:3] = [each & dropped for each in sets[:3]]
    _check(libc.capset(header, ctypes.create_string_buffer(struct.pack("6I", *sets))))


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
