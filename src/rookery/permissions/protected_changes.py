"""Finds changes by a command that only a person may allow. They are reverted."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from rookery.core.facts import Effect, FileVersion
from rookery.core.modes import GOVERNANCE_FOLDER, is_hosts_own
from rookery.core.protected_paths import OF_BUILDS, completes_repository, protected
from rookery.core.text.characters import folded
from rookery.core.undo_plan import is_leaf

_WITHOUT_EFFECT_ELSEWHERE = frozenset({"active_intents.yaml", ".intentignore", "agent_trace.jsonl"})
"""Files without effect outside the governance folder."""
_GITS_OWN = """
HEAD objects refs config config.worktree packed-refs hooks info logs index description branches
worktrees modules shallow lfs rr-cache commondir gitdir ORIG_HEAD FETCH_HEAD MERGE_HEAD
CHERRY_PICK_HEAD COMMIT_EDITMSG
"""
_OF_A_REPOSITORY = frozenset(map(folded, _GITS_OWN.split()))


def protected_paths(effects: Sequence[Effect], expected: Collection[str]) -> list[str]:
    """The paths a command changed without permission. `expected` paths were approved by name. That
    does not cover a new git repository, whose files have ordinary names."""
    repositories = _new_repositories(effects)
    planted = {effect.path for each in repositories if each.home is None for effect in each.made}
    moved = _moved_away(effects).union(*(_left_behind(each, effects) for each in repositories))
    return [
        effect.path
        for effect in effects
        if effect.path in planted
        or (effect.path not in expected and effect.path not in moved and _is_protected(effect))
    ]


def _moved_away(effects: Sequence[Effect]) -> set[str]:
    """Copies of protected files whose originals are gone: deleting them would lose their content.
    Any other new file with a protected name counts as planted."""
    gone = {
        each.before.blob
        for each in effects
        if each.before and not each.after and _has_protected_name(each.path)
    }
    return {
        each.path for each in effects if not each.before and each.after and each.after.blob in gone
    }


def protected_paths_under_mount_sandbox(
    effects: Sequence[Effect], expected: Collection[str]
) -> list[str]:
    """The same for a sandbox in which commands cannot write governance files. A changed one was
    then changed by the host, such as by `rookery intents pause`."""
    return [path for path in protected_paths(effects, expected) if not is_hosts_own(path)]


def _is_protected(effect: Effect) -> bool:
    folder, _, name = effect.path.rpartition("/")
    if (
        effect.before is None
        and name in _WITHOUT_EFFECT_ELSEWHERE
        and GOVERNANCE_FOLDER not in folder
    ):
        return False  # a new copy, which has no effect in this place
    return _has_protected_name(effect.path, new=effect.before is None)


def _has_protected_name(path: str, *, new: bool = True) -> bool:
    why = protected(path, new=new)
    return bool(why) and why not in OF_BUILDS


class _NewRepository(Struct, frozen=True):
    """New files that turn a folder into a git repository. `home` is its former place if it was only
    moved."""

    folder: str
    made: tuple[Effect, ...]
    home: str | None


def _new_repositories(effects: Sequence[Effect]) -> list[_NewRepository]:
    """New repositories, each with all of git's own files in it."""
    parts: dict[str, dict[str, list[Effect]]] = {}
    for effect in effects:
        if effect.before is None:
            for folder, name in _repository_parts(effect.path):
                parts.setdefault(folder, {}).setdefault(name, []).append(effect)
    gone = {each.path: each.before for each in effects if each.before and not each.after}
    return [
        _NewRepository(folder, made, _former_place(folder, made, gone))
        for folder, found in parts.items()
        if completes_repository("", tuple(found))
        for made in [tuple(effect for some in found.values() for effect in some)]
    ]


def _former_place(
    folder: str, made: Sequence[Effect], gone: Mapping[str, FileVersion]
) -> str | None:
    """The former place of a repository: one that is gone and had the same files, objects aside."""
    files = {
        each.path.removeprefix(folder).lstrip("/"): each.after.blob
        for each in made
        if is_leaf(each.after) and each.after
    }
    obeyed = {name: blob for name, blob in files.items() if not _is_object(name)}
    if "HEAD" not in obeyed:
        return None
    homes = (path.removesuffix("HEAD") for path in gone if f"/{path}".endswith("/HEAD"))
    return next(
        (
            home
            for home in homes
            if all(_blob(gone.get(f"{home}{name}")) == blob for name, blob in obeyed.items())
        ),
        None,
    )


def _left_behind(repository: _NewRepository, effects: Sequence[Effect]) -> set[str]:
    """Paths that a moved repository left behind and that exist in its new place."""
    if not repository.home:
        return set()
    place = f"{repository.folder}/" if repository.folder else ""
    made = {each.path: _blob(each.after) for each in repository.made}
    return {
        each.path
        for each in effects
        if each.before
        and not each.after
        and each.path.startswith(repository.home)
        and made.get(place + each.path.removeprefix(repository.home)) == each.before.blob
    }


def _blob(version: FileVersion | None) -> str | None:
    return version.blob if version else None


def _is_object(name: str) -> bool:
    """Whether git only reads it as data. `objects/info` can point git to other folders."""
    return name.startswith("objects/") and not name.startswith("objects/info/")


def _repository_parts(path: str) -> list[tuple[str, str]]:
    """Each folder that would be a repository with this path in it, and the part's name."""
    names = path.split("/")
    return [
        ("/".join(names[:at]), folded(name))
        for at, name in enumerate(names)
        if folded(name) in _OF_A_REPOSITORY
    ]
