"""The governance folder's `.gitignore` and `.gitattributes`, by what becomes of the ledger."""

from collections.abc import Sequence

from rookery.core.limits import MIB
from rookery.errors import RookeryError
from rookery.governance.layout import GIT_LINES, Layout, LedgerHome, git_lines
from rookery.governance.replaced_files import replace_file
from rookery.platform.disk import Unreadable, small_file


def bring_in_line(layout: Layout, vcs: LedgerHome) -> tuple[str, ...]:
    """Adds and removes our own lines, no others, and says which files are other ones now. Raises
    `RookeryError`."""
    return tuple(name for name, ours in git_lines(vcs).items() if _changed(layout, name, ours))


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
