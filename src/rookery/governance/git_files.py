"""The governance folder's `.gitignore` and `.gitattributes`, by what becomes of the ledger.

Files are replaced as a whole: the old one or the new one, never half. Links are not followed.
"""

from collections.abc import Sequence
from pathlib import Path

from rookery.core.limits import MIB
from rookery.errors import RookeryError
from rookery.governance.host_writes import note_write
from rookery.governance.layout import GIT_LINES, Layout, LedgerHome, git_lines
from rookery.platform.attributes import attributes_at
from rookery.platform.disk import Unreadable, put, small_file


class NotReplaced(RookeryError):
    """The file is as it was."""


def bring_in_line(layout: Layout, vcs: LedgerHome) -> tuple[str, ...]:
    """Adds and removes our own lines, no others, and says which files are other ones now. Raises
    `RookeryError`."""
    return tuple(name for name, ours in git_lines(vcs).items() if _changed(layout, name, ours))


def replace_file(layout: Layout, path: Path, data: bytes) -> None:
    """Write a file in the governance folder. Raises `NotReplaced`. Links are not followed: whoever
    wrote the repository could have things written elsewhere."""
    name = layout.shown(path)
    if layout.folder.is_symlink() or path.is_symlink():
        raise NotReplaced(f"{name} is a link; nothing was written. Remove it.")
    try:
        note_write(layout.written, path, data)
        put(path, [data], like=attributes_at(path), mode=0o644)
    except OSError as error:
        reason = error.strerror or str(error)
        raise NotReplaced(f"{name} cannot be written ({reason}); it is as it was.") from error


def _changed(layout: Layout, name: str, ours: Sequence[str]) -> bool:
    path = layout.folder / name
    try:
        before = small_file(path, layout.workspace, largest=MIB).decode()
    except FileNotFoundError:
        before = ""
    except (Unreadable, UnicodeDecodeError) as error:
        shown = layout.shown(path)
        raise RookeryError(f"{shown} is not read, so it was left as it is: {error}.") from error
    foreign = set(GIT_LINES[name]) - set(ours)
    lines = before.splitlines()
    after = [line for line in lines if line.strip() not in foreign]
    after += [line for line in ours if line not in {each.strip() for each in lines}]
    if after == lines:
        return False
    replace_file(layout, path, "".join(f"{line}\n" for line in after).encode())
    return True
