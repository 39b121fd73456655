"""Which changes of a command are put back: those that only a person may allow."""

from collections.abc import Collection, Sequence

from rookery.core.facts import Effect
from rookery.core.folded_names import folded
from rookery.core.intents.governance_mode import GOVERNANCE_FOLDER, is_hosts_own
from rookery.core.protected_paths import (
    OF_BUILDS,
    PARTS_OF_A_REPOSITORY,
    completes_repository,
    protected,
)

_GOVERN_NOTHING = frozenset({"active_intents.yaml", ".intentignore", "agent_trace.jsonl"})
"""Outside their folder."""
_OF_A_REPOSITORY = frozenset(map(folded, (*PARTS_OF_A_REPOSITORY, "config")))


def shielded(effects: Sequence[Effect], expected: Collection[str]) -> list[str]:
    """What a command must not have done by itself. What is `expected` was asked about by its
    name; but by their names the parts of a repository are files like any other.
    """
    planted = _parts_of_new_repositories(effects)
    moved = _moved_away(effects)
    return [
        effect.path
        for effect in effects
        if effect.path in planted
        or (effect.path not in expected and effect.path not in moved and _is_protected(effect))
    ]


def _moved_away(effects: Sequence[Effect]) -> set[str]:
    """Copies of protected files that are gone: to remove them would be to lose what was in them.
    Whatever else takes a protected name is planted, wherever it was before."""
    gone = {
        each.before.blob
        for each in effects
        if each.before and not each.after and _is_protected(each)
    }
    return {
        each.path for each in effects if not each.before and each.after and each.after.blob in gone
    }


def shielded_where_it_is_mounted(effects: Sequence[Effect], expected: Collection[str]) -> list[str]:
    """The same where commands cannot write the files of governance: if one that the host writes
    is another now, somebody had it changed, such as by `rookery intents pause`."""
    return [path for path in shielded(effects, expected) if not is_hosts_own(path)]


def nothing_shielded(effects: Sequence[Effect], expected: Collection[str]) -> list[str]:
    """For a run whose user said so."""
    return []


def _is_protected(effect: Effect) -> bool:
    folder, _, name = effect.path.rpartition("/")
    if effect.before is None and name in _GOVERN_NOTHING and GOVERNANCE_FOLDER not in folder:
        return False  # a copy somebody made: where it lies it governs nothing
    why = protected(effect.path, new=effect.before is None)
    return bool(why) and why not in OF_BUILDS


def _parts_of_new_repositories(effects: Sequence[Effect]) -> set[str]:
    """What was made by which a folder became what git takes for a repository."""
    parts: dict[str, dict[str, list[str]]] = {}
    for effect in effects:
        if effect.before is None:
            for folder, name in _places(effect.path):
                parts.setdefault(folder, {}).setdefault(name, []).append(effect.path)
    return {
        path
        for found in parts.values()
        if completes_repository("", tuple(found))
        for paths in found.values()
        for path in paths
    }


def _places(path: str) -> list[tuple[str, str]]:
    """The folders of which the path could be in a part, and that part's name."""
    names = path.split("/")
    return [
        ("/".join(names[:at]), folded(name))
        for at, name in enumerate(names)
        if folded(name) in _OF_A_REPOSITORY
    ]
