"""Files with an access control list, and whether it is still there."""

import os
import stat
import struct
from pathlib import Path

NOBODY = 65534
ACL = "system.posix_acl_access"
DEFAULT = "system.posix_acl_default"
_OWNER, _USER, _GROUP, _MASK, _OTHER = 1, 2, 4, 16, 32
_ANY = 0xFFFFFFFF


def acl(*, user: int = NOBODY, may: int = 6, mask: int = 6) -> bytes:
    """As the kernel has it: the owner reads and writes, the group reads, others do nothing."""
    entries = [(_OWNER, 6, _ANY), (_USER, may, user), (_GROUP, 4, _ANY), (_MASK, mask, _ANY)]
    packed = [struct.pack("<HHI", *entry) for entry in (*entries, (_OTHER, 0, _ANY))]
    return b"\2\0\0\0" + b"".join(packed)


def restrict(file: Path) -> Path:
    """Give it a list by which its group may less than its mode says, and a tag."""
    os.setxattr(file, ACL, acl())
    os.setxattr(file, "user.tag", b"red")
    return file


def still_restricted(file: Path) -> bool:
    if not {ACL, "user.tag"} <= set(os.listxattr(file)):
        return False
    kept = os.getxattr(file, ACL), os.getxattr(file, "user.tag")
    return kept == (acl(), b"red") and stat.S_IMODE(file.stat().st_mode) == 0o660
