"""One file that differs, line by line."""

from msgspec import Struct

from rookery.manager.review.changed_files import Listed, listed
from rookery.manager.review.checkouts import Checkout
from rookery.manager.review.file_sides import LARGEST_SHOWN, Side, new_side, old_side
from rookery.manager.review.line_changes import ChangedLine, line_changes
from rookery.manager.review.raw_changes import GitScope, RawChange, raw_changes
from rookery.manager.shown_rows import ChangedFile
from rookery.manager.worktrees.checkout_files import LINK
from rookery.manager.worktrees.worktree_git import Git, InTheWay
from rookery.manager.worktrees.worktree_values import Code
from rookery.platform.paths import visible


class Picture(Struct, frozen=True, kw_only=True):
    media_type: str
    data: bytes


class TextDiff(Struct, frozen=True, kw_only=True):
    """A file with its lines as they are. The whole texts are there too: colours need them."""

    file: ChangedFile
    lines: tuple[ChangedLine, ...] = ()
    note: str = ""
    old: bytes = b""
    new: bytes = b""
    old_picture: Picture | None = None
    new_picture: Picture | None = None


def diff_of(checkout: Checkout, scope: GitScope, path: str, *, context: int) -> TextDiff:
    """Of a file by its path as it is shown. Raises `InTheWay` if it does not differ."""
    found = find_change(checkout, scope, path)
    old, new = old_side(checkout.git, found.raw), new_side(checkout, found.raw)
    if found.raw.is_module:
        said = f"A submodule: {old.known_by or 'none'} before, {new.known_by or 'none'} now."
        return TextDiff(file=found.shown, note=said)
    new = _as_git_stores(checkout.git, found.raw, old, new)
    return diff_of_sides(checkout.git.program, found.shown, old, new, context=context)


def find_change(checkout: Checkout, scope: GitScope, path: str) -> Listed:
    """A file by its path as it is shown."""
    chosen = tuple(
        each for each in raw_changes(checkout, scope).files if visible(each.path) == path
    )
    for found in listed(checkout, scope, chosen):
        return found
    raise InTheWay(Code.NOTHING_TO_DO, f"{path} has no changes here any more; look again.", [path])


def diff_of_sides(
    program: str, file: ChangedFile, old: Side, new: Side, *, context: int
) -> TextDiff:
    if any(side.is_there and side.data is None for side in (old, new)):
        return TextDiff(file=file, note=_too_much(old, new))
    if old.picture or new.picture:
        return TextDiff(
            file=file,
            note=_sizes(old, new),
            old_picture=_picture(old),
            new_picture=_picture(new),
        )
    if old.is_binary or new.is_binary:
        return TextDiff(file=file, note=_sizes(old, new))
    was, now = old.data or b"", new.data or b""
    lines = line_changes(program, was, now, context=context)
    return TextDiff(file=file, lines=lines, note=_about(old, new), old=was, new=now)


def _as_git_stores(git: Git, raw: RawChange, old: Side, new: Side) -> Side:
    """Where attributes have git change line ends, a file is compared as git would store it, or
    every line would differ."""
    if not (old.data and new.data) or b"\r\n" in old.data or b"\r\n" not in new.data:
        return new
    asked = ("hash-object", "--stdin")
    plain = git.run(*asked, "--no-filters", given=new.data).text
    if git.run(*asked, f"--path={raw.path}", given=new.data).text == plain:
        return new
    return Side(new.mode, new.size, new.known_by, new.data.replace(b"\r\n", b"\n"))


def _about(old: Side, new: Side) -> str:
    if LINK in (old.mode, new.mode):
        return "A symbolic link; the lines say where it leads."
    if not (old.is_there and new.is_there):
        return "" if old.data or new.data else "An empty file."
    if old.mode != new.mode and old.data == new.data:
        return f"Only its mode has changed, from {old.mode} to {new.mode}."
    if old.data == new.data:
        return "Its content is the same."
    return (
        f"Its mode has changed too, from {old.mode} to {new.mode}." if old.mode != new.mode else ""
    )


def _sizes(old: Side, new: Side) -> str:
    before = f"{old.size} bytes" if old.is_there else "not there"
    now = f"{new.size} bytes" if new.is_there else "not there"
    return f"Not a text: {before} before, {now} now."


def _too_much(old: Side, new: Side) -> str:
    if max(old.size, new.size) <= LARGEST_SHOWN:
        return "It cannot be read."
    return f"Too large to be shown: {old.size} bytes before, {new.size} bytes now."


def _picture(side: Side) -> Picture | None:
    if not side.picture:
        return None
    return Picture(media_type=side.picture, data=side.data or b"")
