"""The list of changed files, and the diff of one file.

Generated files are marked, and files that are too large are listed but not shown.
"""

import base64
from collections.abc import Iterator, Sequence

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.core.protected_paths import looks_generated
from rookery.manager.review.checkout_changes import (
    Checkout,
    GitScope,
    RawChange,
    raw_changes,
    stats_of,
)
from rookery.manager.review.file_sides import (
    LARGEST_SHOWN,
    ChangedLine,
    Side,
    line_changes,
    new_side,
    old_side,
)
from rookery.manager.shown_rows import ChangedFile, Review
from rookery.manager.worktrees.checkout_files import LINK
from rookery.platform.paths import visible
from rookery.platform.worktree_git import Git, InTheWay, own_index
from rookery.platform.worktree_values import Code, digest

_ATTRIBUTE = "linguist-generated"
_SAYS_NO = ("unspecified", "unset", "false")
MOST_SHOWN = 20 * MIB
"""Bytes of all files of a review; later files are only listed."""
MOST_LISTED = 3000
MOST_COUNTED = 100
"""Files whose lines are counted here, because attributes told git not to."""
_LONGEST_LIST = 5


class ListedFile(Struct, frozen=True):
    """A changed file, as shown and as git reports it."""

    shown: ChangedFile
    raw: RawChange


class TextDiff(Struct, frozen=True, kw_only=True):
    """The diff of a file. Includes both whole texts, which highlighting needs."""

    file: ChangedFile
    lines: tuple[ChangedLine, ...] = ()
    note: str = ""
    old: bytes = b""
    new: bytes = b""
    old_image: str = ""
    """A data URI, like `new_image`."""
    new_image: str = ""


def changes_of(checkout: Checkout, scope: GitScope) -> Review:
    found = raw_changes(checkout, scope)
    files = list(listed(checkout, scope, found.files[:MOST_LISTED]))
    more = len(found.files) - len(files)
    notes = [
        *([f"{more} more changed files are not listed."] if more else []),
        *checkout.notes,
        *(f"{visible(path)} is a nested repository; it is not shown." for path in found.nested),
        *_marked(checkout),
    ]
    return Review(
        scope=scope,
        base=checkout.base,
        stats=stats_of(checkout, found.files),
        files=tuple(each.shown for each in files),
        notes=tuple(notes),
    )


def listed(
    checkout: Checkout, scope: GitScope, found: tuple[RawChange, ...]
) -> Iterator[ListedFile]:
    made = generated(checkout, [each.path for each in found])
    room, counted = MOST_SHOWN, 0
    for raw in found:
        new = new_side(checkout, raw, read=room > 0)
        room -= new.size if new.data is not None else 0
        uncounted = raw.added is None and not raw.is_module and counted < MOST_COUNTED
        counted += uncounted
        old = old_side(checkout.git, raw, read=uncounted)
        yield ListedFile(_shown(checkout, scope, raw, old, new, is_generated=raw.path in made), raw)


def find_change(checkout: Checkout, scope: GitScope, path: str) -> ListedFile:
    """Find a changed file by its displayed path."""
    chosen = tuple(
        each for each in raw_changes(checkout, scope).files if visible(each.path) == path
    )
    for found in listed(checkout, scope, chosen):
        return found
    raise InTheWay(Code.NOTHING_TO_DO, f"{path} is no longer changed; look again.", [path])


def diff_of(checkout: Checkout, scope: GitScope, path: str, *, context: int = 3) -> TextDiff:
    """Diff of a file by its displayed path. Raises `InTheWay` if it has no changes."""
    found = find_change(checkout, scope, path)
    old, new = old_side(checkout.git, found.raw), new_side(checkout, found.raw)
    if found.raw.is_module:
        said = f"A submodule: {old.known_by or 'none'} before, {new.known_by or 'none'} now."
        return TextDiff(file=found.shown, note=said)
    new = _as_git_stores(checkout.git, found.raw, old, new)
    return diff_of_sides(checkout.git.program, found.shown, old, new, context=context)


def diff_of_sides(
    program: str, file: ChangedFile, old: Side, new: Side, *, context: int
) -> TextDiff:
    if any(side.is_there and side.data is None for side in (old, new)):
        return TextDiff(file=file, note=_too_much(old, new))
    if old.picture or new.picture:
        return TextDiff(
            file=file,
            note=_sizes(old, new),
            old_image=_data_uri(old),
            new_image=_data_uri(new),
        )
    if old.is_binary or new.is_binary:
        return TextDiff(file=file, note=_sizes(old, new))
    was, now = old.data or b"", new.data or b""
    lines = line_changes(program, was, now, context=context)
    return TextDiff(file=file, lines=lines, note=_about(old, new), old=was, new=now)


def generated(checkout: Checkout, paths: Sequence[str]) -> set[str]:
    """The generated files, by name or by an attribute in the base. Attributes in the checkout do
    not count: an agent could use them to hide changes."""
    named = {path for path in paths if looks_generated(path)}
    return named | _declared(checkout, [path for path in paths if path not in named])


def digest_of(scope: GitScope, raw: RawChange, new: Side) -> str:
    """Digest of exactly what is compared; it changes with content, path and base."""
    old = (raw.old_path, raw.old_mode, raw.old_id)
    return digest(scope, raw.path, *old, new.mode, new.known_by)


def _declared(checkout: Checkout, paths: Sequence[str]) -> set[str]:
    if not paths or not checkout.base:
        return set()
    git = checkout.git
    with own_index(git) as index:
        git.run("read-tree", checkout.base, variables=index)
        words = ("check-attr", "--cached", "-z", "--stdin", _ATTRIBUTE)
        said = git.names(*words, given=paths, **index)
    rows = zip(said[::3], said[2::3], strict=False)
    return {path for path, held in rows if held not in _SAYS_NO}


def _shown(
    checkout: Checkout,
    scope: GitScope,
    raw: RawChange,
    old: Side,
    new: Side,
    *,
    is_generated: bool,
) -> ChangedFile:
    added, removed = _counts(checkout, raw, old, new)
    binary = old.is_binary or new.is_binary
    too_large = not raw.is_module and (
        max(old.size, new.size) > LARGEST_SHOWN or (new.is_there and new.data is None)
    )
    return ChangedFile(
        path=visible(raw.path),
        kind=raw.kind,
        old_path=visible(raw.old_path),
        added=added,
        removed=removed,
        binary=binary,
        image=bool(old.picture or new.picture),
        generated=is_generated,
        too_large=too_large,
        digest=digest_of(scope, raw, new),
    )


def _counts(checkout: Checkout, raw: RawChange, old: Side, new: Side) -> tuple[int, int]:
    """Line counts, also where attributes keep git from counting."""
    if raw.added is not None and raw.removed is not None:
        return raw.added, raw.removed
    either_lacks = any(side.is_there and side.data is None for side in (old, new))
    if either_lacks or old.is_binary or new.is_binary:
        return 0, 0
    if LINK in (old.mode, new.mode) and old.mode != new.mode:
        return 0, 0
    lines = line_changes(checkout.git.program, old.data or b"", new.data or b"", context=0)
    kinds = [line.kind for line in lines]
    return kinds.count("added"), kinds.count("removed")


def _marked(checkout: Checkout) -> Iterator[str]:
    """Notes about conflicts, and about files whose changes git was told to ignore."""
    tagged = checkout.git.names("ls-files", "-v", "-z")
    conflicts = dict.fromkeys(visible(each[2:]) for each in tagged if each[0] == "M")
    hidden = [visible(each[2:]) for each in tagged if each[0] == "S" or each[0].islower()]
    if conflicts:
        yield f"In conflict: {_named(list(conflicts))}."
    if hidden:
        yield f"Git ignores changes of these, so they are not shown: {_named(hidden)}."


def _named(paths: list[str]) -> str:
    return ", ".join(paths[:_LONGEST_LIST]) + (", …" if paths[_LONGEST_LIST:] else "")


def _as_git_stores(git: Git, raw: RawChange, old: Side, new: Side) -> Side:
    """Normalise line ends if attributes have git do so; otherwise every line would differ."""
    if not (old.data and new.data) or b"\r\n" in old.data or b"\r\n" not in new.data:
        return new
    asked = ("hash-object", "--stdin")
    plain = git.run(*asked, "--no-filters", given=new.data).text
    if git.run(*asked, f"--path={raw.path}", given=new.data).text == plain:
        return new
    return Side(new.mode, new.size, new.known_by, new.data.replace(b"\r\n", b"\n"))


def _about(old: Side, new: Side) -> str:
    if LINK in (old.mode, new.mode):
        return "A symbolic link; the lines show its target."
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
    before = f"{old.size} bytes" if old.is_there else "missing"
    now = f"{new.size} bytes" if new.is_there else "missing"
    return f"Not a text file: {before} before, {now} now."


def _too_much(old: Side, new: Side) -> str:
    if max(old.size, new.size) <= LARGEST_SHOWN:
        return "It cannot be read."
    return f"Too large to show: {old.size} bytes before, {new.size} bytes now."


def _data_uri(side: Side) -> str:
    if not side.picture:
        return ""
    return f"data:{side.picture};base64,{base64.b64encode(side.data or b'').decode()}"
