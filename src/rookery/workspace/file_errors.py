"""What the operating system says about a file, in a sentence."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from rookery.errors import ToolError
from rookery.platform.attributes import NotKept

_REASONS = {
    errno.ENOSPC: "its file system is full",
    errno.EDQUOT: "the disk quota of its file system is used up",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EIO: "its file system reported an error",
    errno.EROFS: "its file system is read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "the operation is not permitted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ETXTBSY: "it is a program that is running",
    errno.EBUSY: "it is in use",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.ELOOP: "a part of its path has become a symbolic link",
}


@contextmanager
def explained(path: str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        reason = said if isinstance(error, NotKept) else _REASONS.get(error.errno or 0, said)
        raise ToolError(f"{path} was not {done}: {reason}.") from error
