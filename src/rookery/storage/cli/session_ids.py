"""Ids of sessions as people give them: whole, or as few characters as tell them apart."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rookery import NAME
from rookery.errors import SettingsError
from rookery.storage.sessions import TaskStore
from rookery.storage.summary import TaskSummary

SHORT = 8
SHORTEST = 4
MOST_NAMED = 5


def full_id(store: TaskStore, given: str) -> str:
    """The id that a session was given by. A whole UUID is taken as it is, whether or not there
    is such a session; anything else must be the beginning of exactly one."""
    wanted = given.lower()
    if _is_uuid(wanted):
        return wanted
    if len(wanted) < SHORTEST:
        raise SettingsError(
            f"{given!r} is too short for a session id; give at least {SHORTEST} characters of it."
        )
    known = [session.id for session in store.list()]
    fitting = [one for one in known if one.lower().startswith(wanted)]
    match [one for one in fitting if one.lower() == wanted] or fitting:
        case []:
            raise SettingsError(f"No session begins with {given}. See {NAME} list --all.")
        case [only]:
            return only
        case _:
            named = [short for one, short in short_ids(known).items() if one in fitting]
            shown = ", ".join(named[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")
            raise SettingsError(f"{given} fits several sessions: {shown}. Give more characters.")


def chosen_session(
    store: TaskStore, given: str | None, workspace: Path, wish: str = "go on with"
) -> str:
    """The session that is meant: the one given, or else the last one of the workspace. `wish` is
    what somebody wants to do with it."""
    if given is not None:
        task_id = full_id(store, given)
        if not store.exists(task_id):
            raise SettingsError(f"There is no session {task_id}. See {NAME} list.")
        return task_id
    sessions = store.list(str(workspace))
    if not sessions:
        raise SettingsError(
            f"There is no session to {wish} in {workspace}. See those of other folders with "
            f'{NAME} list --all, or start one here: {NAME} "your task"'
        )
    return _root_of(sessions[0], {session.id: session for session in sessions}).id


def _root_of(session: TaskSummary, known: Mapping[str, TaskSummary]) -> TaskSummary:
    """The task that the others work for: only with it their results arrive."""
    while session.parent and session.parent in known:
        session = known[session.parent]
    return session


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id its first characters: eight, or as many as no other id begins with."""
    ordered = sorted(set(ids))
    pairs = zip(ordered, ["", *ordered], [*ordered[1:], ""], strict=False)
    return {one: _short(one, (before, after)) for one, before, after in pairs}


def _short(one: str, neighbours: Sequence[str]) -> str:
    """In order of the alphabet, whoever begins most alike stands beside."""
    alike = max(_common(one, other) for other in neighbours)
    return one[: max(SHORT, alike + 1)]


def _common(one: str, other: str) -> int:
    """How many characters two ids begin with alike."""
    length = 0
    for char, beside in zip(one, other, strict=False):
        if char != beside:
            break
        length += 1
    return length


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
