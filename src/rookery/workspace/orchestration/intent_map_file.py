"""`intent_map.md` on disk, made from the ledger and from the files as they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

from rookery.core.intents.activity import Activity, activity
from rookery.core.intents.intent import Intent
from rookery.core.intents.intent_map import map_entries, updated_map, with_entry
from rookery.core.ledger.traced import TracedRecord
from rookery.core.limits import MIB
from rookery.errors import RookeryError
from rookery.workspace.orchestration.file_locks import file_lock
from rookery.workspace.orchestration.layout import Layout
from rookery.workspace.orchestration.replaced_files import replace_file
from rookery.workspace.orchestration.small_files import Unreadable, small_file

LARGEST_MAP = 4 * MIB
LARGEST_SOURCE = 2 * MIB


def write_intent_map(
    layout: Layout, intents: Sequence[Intent], records: Iterable[TracedRecord]
) -> bool:
    """Make the map anew from all records, oldest first, and say whether it is another one now.
    Raises `RookeryError`; then it is as it was."""
    activities = activity(records)
    entries = map_entries(intents, activities, _texts(layout, activities))
    return _rewrite(layout, lambda text: updated_map(text, entries))


def renew_in_map(layout: Layout, intent: Intent, records: Iterable[TracedRecord]) -> bool:
    """The same for one intent, from its own records: what a turn of a task needs."""
    activities = activity(records)
    [entry] = map_entries([intent], activities, _texts(layout, activities))
    return _rewrite(layout, lambda text: with_entry(text, entry))


def _rewrite(layout: Layout, renewed: Callable[[str], str]) -> bool:
    with file_lock(layout.own_folder(layout.locks) / "map"):
        before = _present(layout)
        after = renewed(before)
        if after != before:
            replace_file(layout, layout.map_file, after.encode())
        return after != before


def _present(layout: Layout) -> str:
    name = layout.shown(layout.map_file)
    try:
        data = small_file(layout.map_file, layout.workspace, largest=LARGEST_MAP)
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (Unreadable, UnicodeDecodeError) as error:
        raise RookeryError(f"{name} is not read, so it was left as it is: {error}.") from error


def _texts(layout: Layout, activities: Mapping[str, Activity]) -> dict[str, str]:
    """Of files that are as they were left: in others, recorded lines may be other lines by now."""
    wanted = {
        (file.path, file.after) for each in activities.values() for file in each.files.values()
    }
    found: dict[str, str] = {}
    for path, after in wanted:
        try:
            data = small_file(layout.root / path, layout.workspace, largest=LARGEST_SOURCE)
        except (FileNotFoundError, Unreadable):
            continue  # then it has no names here
        if sha256(data).hexdigest() == after:
            found[path] = data.decode("utf-8", "replace")
    return found
