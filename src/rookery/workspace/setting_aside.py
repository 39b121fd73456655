"""Moving things out of the workspace that must not be there, without destroying any."""

import errno
import os
import secrets
import shutil
from pathlib import Path

from rookery.workspace.descriptors import opened_folder, present


def set_aside(root: Path, path: str, aside: Path) -> str:
    """Move what is at the path, be it a file or a folder; where to. Raises `OSError`."""
    *folders, name = path.split("/")
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    away = f"{'-'.join(path.split('/'))[-100:].lstrip('.')}-{secrets.token_hex(4)}"
    with opened_folder(root, folders) as folder:
        at = present(folder)
        try:
            os.rename(name, aside / away, src_dir_fd=at)
            return str(aside / away)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # first out of git's sight, as copying to another disk takes a while
        unseen = f".{name.strip('.')}.set-aside-{secrets.token_hex(4)}"
        os.rename(name, unseen, src_dir_fd=at, dst_dir_fd=at)
    return _carried(root.joinpath(*folders, unseen), aside / away)


def _carried(here: Path, there: Path) -> str:
    """Where it is in the end: what cannot be copied stays under its new name."""
    try:
        if here.is_dir() and not here.is_symlink():
            shutil.copytree(here, there, symlinks=True)
            shutil.rmtree(here)
        else:
            shutil.copy2(here, there, follow_symlinks=False)
            here.unlink()
    except OSError:
        return str(here)
    return str(there)
