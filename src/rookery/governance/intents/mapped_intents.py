"""The intent map, made from the ledger and from the files as they are."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from rookery.core.limits import MIB
from rookery.governance.intents.activity import Activity, activity
from rookery.governance.intents.intent import Intent
from rookery.governance.intents.intent_map import MapEntry, map_entries
from rookery.governance.layout import Layout
from rookery.governance.ledger.traced import TracedRecord
from rookery.platform.disk import Unreadable, small_file

LARGEST_SOURCE = 2 * MIB


def intent_map(
    layout: Layout, intents: Sequence[Intent], records: Iterable[TracedRecord]
) -> tuple[MapEntry, ...]:
    """From all records, oldest first."""
    activities = activity(records)
    return map_entries(intents, activities, _texts(layout, activities))


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
