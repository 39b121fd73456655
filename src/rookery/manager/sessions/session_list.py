"""The list of sessions: whose it is, in which order, what fits a search, what wants attention.

Nothing is ever left out because there is too much of it.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from rookery.core.text.characters import caseless
from rookery.manager.sessions.session_record import SessionRecord
from rookery.manager.sessions.session_states import TRUE_IN, needs_attention


class Counts(Struct, frozen=True, kw_only=True):
    """What the head of the list says."""

    active: int = 0
    history: int = 0
    archived: int = 0
    attention: int = 0
    """The number on the badge."""


def merged(
    local: Iterable[SessionRecord], remote: Iterable[SessionRecord]
) -> tuple[SessionRecord, ...]:
    """Both, one of each id. What is here is newer than what was sent elsewhere."""
    here = tuple(local)
    ids = {record.session_id for record in here}
    return (*here, *(record for record in remote if record.session_id not in ids))


def of_project(records: Iterable[SessionRecord], git_url: str | None) -> tuple[SessionRecord, ...]:
    """Those of the project with this remote; without one, those that have none."""
    wanted = normalised_remote(git_url)
    return tuple(record for record in records if normalised_remote(record.git_url) == wanted)


def ordered(records: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """What is pending or active, then the history, each newest first; nothing archived."""
    shown = (record for record in records if not record.archived)
    return tuple(sorted(shown, key=_place))


def archived(records: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """What was put away, newest first."""
    return tuple(sorted((record for record in records if record.archived), key=_place))


def found(records: Iterable[SessionRecord], words: str) -> tuple[SessionRecord, ...]:
    """Those that hold every word somewhere, in the order they come."""
    wanted = caseless(words).split()
    return tuple(record for record in records if all(word in _searched(record) for word in wanted))


def counts(records: Iterable[SessionRecord]) -> Counts:
    """What is archived asks for no attention."""
    everything = tuple(records)
    shown = [record for record in everything if not record.archived]
    active = sum(map(is_active, shown))
    return Counts(
        active=active,
        history=len(shown) - active,
        archived=len(everything) - len(shown),
        attention=sum(needs_attention(record.state, unread=record.unread) for record in shown),
    )


def is_active(record: SessionRecord) -> bool:
    return record.state in TRUE_IN["is_active"]


def normalised_remote(url: str | None) -> str | None:
    """The same for all spellings of one remote: `host/path`, without user, port and `.git`."""
    if not url or not (bare := url.strip().rstrip("/")):
        return None
    match = _WITH_SCHEME.fullmatch(bare) or _LIKE_SCP.fullmatch(bare)
    if not match:
        return bare.removesuffix(".git")
    path = match["path"].strip("/").removesuffix(".git")
    return f"{match['host'].lower()}/{path}"


_WITH_SCHEME = re.compile(
    r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)", re.I
)
_LIKE_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/:@]{2,}):(?P<path>(?![/\\]{2}).+)")


def _place(record: SessionRecord) -> tuple[bool, int, str]:
    return (not is_active(record), -record.start_time, record.session_id)


def _searched(record: SessionRecord) -> str:
    branch = record.parallel_mode.branch if record.parallel_mode else ""
    texts = (record.label, record.title, record.prompt, branch, record.model or "")
    return caseless("\n".join((*texts, record.session_id)))
