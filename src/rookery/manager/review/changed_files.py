"""What there is to look at: the files that differ, each with what can be said of it in a line."""

from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.manager.review.checkouts import Checkout
from rookery.manager.review.diff_stats import stats_of
from rookery.manager.review.file_sides import LARGEST_SHOWN, Side, new_side, old_side
from rookery.manager.review.generated_files import generated
from rookery.manager.review.line_changes import line_changes
from rookery.manager.review.raw_changes import GitScope, RawChange, raw_changes
from rookery.manager.shown_rows import ChangedFile, Review
from rookery.manager.worktrees.checkout_files import LINK
from rookery.platform.paths import visible

MOST_SHOWN = 20 * MIB
"""Of the files of one review together; whatever comes later is only named."""
MOST_LISTED = 3000
MOST_COUNTED = 100
"""Files whose lines are counted here, because git was told not to."""
_LONGEST_LIST = 5


class Listed(Struct, frozen=True):
    """A file that differs, as it is shown and as it is."""

    shown: ChangedFile
    raw: RawChange


def changes_of(checkout: Checkout, scope: GitScope) -> Review:
    found = raw_changes(checkout, scope)
    files = list(listed(checkout, scope, found.files[:MOST_LISTED]))
    more = len(found.files) - len(files)
    notes = [
        *([f"{more} files more have changed, which are not listed."] if more else []),
        *checkout.notes,
        *(f"{visible(path)} is a repository of its own; it is not shown." for path in found.nested),
        *_marked(checkout),
    ]
    return Review(
        scope=scope,
        base=checkout.base,
        stats=stats_of(checkout, found.files),
        files=tuple(each.shown for each in files),
        notes=tuple(notes),
    )


def listed(checkout: Checkout, scope: GitScope, found: tuple[RawChange, ...]) -> Iterator[Listed]:
    made = generated(checkout, [each.path for each in found])
    room, counted = MOST_SHOWN, 0
    for raw in found:
        new = new_side(checkout, raw, read=room > 0)
        room -= new.size if new.data is not None else 0
        uncounted = raw.added is None and not raw.is_module and counted < MOST_COUNTED
        counted += uncounted
        old = old_side(checkout.git, raw, read=uncounted)
        yield Listed(_shown(checkout, scope, raw, old, new, is_generated=raw.path in made), raw)


def digest_of(scope: GitScope, raw: RawChange, new: Side) -> str:
    """Names exactly what is compared: another content, place or base has another one."""
    parts = (scope, raw.path, raw.old_path, raw.old_mode, raw.old_id, new.mode, new.known_by)
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


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
    """Attributes can keep git from counting lines, but not us."""
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
    """What is in conflict; and what git was told to overlook, so that it tells nobody of it."""
    tagged = checkout.git.names("ls-files", "-v", "-z")
    conflicts = dict.fromkeys(visible(each[2:]) for each in tagged if each[0] == "M")
    hidden = [visible(each[2:]) for each in tagged if each[0] == "S" or each[0].islower()]
    if conflicts:
        yield f"In conflict: {_named(list(conflicts))}."
    if hidden:
        yield f"Git was told to overlook changes of these, so they are not shown: {_named(hidden)}."


def _named(paths: list[str]) -> str:
    return ", ".join(paths[:_LONGEST_LIST]) + (", …" if paths[_LONGEST_LIST:] else "")
