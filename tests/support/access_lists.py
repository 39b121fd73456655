"""Files with access control lists, and checks that the lists are intact."""

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
    """An access control list in the kernel's format: owner read and write, group read, others
    none."""
    entries = [(_OWNER, 6, _ANY), (_USER, may, user), (_GROUP, 4, _ANY), (_MASK, mask, _ANY)]
    packed = [struct.pack("<HHI", *entry) for entry in (*entries, (_OTHER, 0, _ANY))]
    return b"\2\0\0\0" + b"".join(packed)


def restrict(file: Path) -> Path:
    """Set a list that gives the group fewer rights than the mode, and a user attribute."""
    os.setxattr(file, ACL, acl())
    os.setxattr(file, "user.tag", b"red")
    return file


def still_restricted(file: Path) -> bool:
    if not {ACL, "user.tag"} <= set(os.listxattr(file)):
        return False
    kept = os.getxattr(file, ACL), os.getxattr(file, "user.tag")
    return kept == (acl(), b"red") and stat.S_IMODE(file.stat().st_mode) == 0o660
