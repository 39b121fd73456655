"""Which changes of a command are reverted."""

import pytest

from rookery.core.facts import Effect, FileVersion
from rookery.permissions.protected_changes import (
    protected_paths,
    protected_paths_under_mount_sandbox,
)

FILE = FileVersion("ab", 0o100644)


def made(*paths: str) -> list[Effect]:
    return [Effect(path, None, FILE) for path in paths]


BARE = ("HEAD", "config", "objects", "refs/heads/main")
CASES = {
    "protected": (made(".envrc", "a.txt"), [".envrc"]),
    "of builds": (made("Makefile"), []),
    "repository below": (
        made(*(f"a/lib/{part}" for part in BARE), "a/lib/x.py"),
        [f"a/lib/{part}" for part in BARE],
    ),
    "repository at the top": (made(*BARE, "x.py"), list(BARE)),
    "in other letters": (made("l/head", "l/Objects/a", "l/REFS/b"), None),
    "not all of one": (made("lib/HEAD", "lib/objects/a"), []),
    "parts in different folders": (made("a/HEAD", "b/objects/x", "c/refs/y"), []),
    "changed, not made": (
        [*made("lib/HEAD", "lib/objects/a"), Effect("lib/refs/b", FILE, FILE)],
        [],
    ),
}


@pytest.mark.parametrize(("effects", "back"), CASES.values(), ids=CASES.keys())
def test_changes_to_protected_paths_are_restored(effects: list[Effect], back: list[str] | None):
    everything = [effect.path for effect in effects]
    assert protected_paths(effects, ()) == (everything if back is None else back)


def test_an_approved_path_is_kept_unless_it_is_part_of_a_repository():
    assert protected_paths(made(".envrc"), {".envrc"}) == []
    assert protected_paths(made("HEAD", "objects/a", "refs/b"), {"HEAD"}) == [
        "HEAD",
        "objects/a",
        "refs/b",
    ]


WITH_HOOK = {
    part: FileVersion(part, 0o100644) for part in (*BARE, "objects/a", "hooks/pre-receive")
}


def moved(old: str, new: str, **others: str) -> list[Effect]:
    """A repository with a hook gets another place; some of its parts are `others` there."""
    after = {part: FileVersion(others.get(part, part), 0o100644) for part in WITH_HOOK}
    gone = [Effect(f"{old}/{part}", version, None) for part, version in WITH_HOOK.items()]
    return [*gone, *(Effect(f"{new}/{part}", None, version) for part, version in after.items())]


def test_a_moved_repository_stays_and_leaves_nothing_behind():
    assert protected_paths(moved("bare.git", "b2.git"), ()) == []
    assert protected_paths(moved("bare.git", "deep/b2.git"), ()) == []


def test_a_hook_not_moved_with_its_repository_is_restored():
    without = [each for each in moved("a.git", "b.git") if each.path != "b.git/hooks/pre-receive"]
    assert protected_paths(without, ()) == ["a.git/hooks/pre-receive"]


def test_a_moved_repository_with_a_different_hook_is_restored():
    changed = protected_paths(moved("a.git", "b.git", **{"hooks/pre-receive": "evil"}), ())
    assert "a.git/hooks/pre-receive" in changed
    assert {f"b.git/{part}" for part in WITH_HOOK} <= set(changed)


ONE, OTHER = FileVersion("aa", 0o100644), FileVersion("bb", 0o100644)
MOVES = {
    "a protected file moved away is kept where it is": (
        [Effect("AGENTS.md", ONE, None), Effect("old/AGENTS.md", None, ONE)],
        ["AGENTS.md"],
    ),
    "an ordinary file that takes a protected name": (
        [Effect("notes.md", ONE, None), Effect("AGENTS.md", None, ONE)],
        ["AGENTS.md"],
    ),
    "another file beside one that was moved away": (
        [Effect("AGENTS.md", ONE, None), Effect("old/AGENTS.md", None, OTHER)],
        ["AGENTS.md", "old/AGENTS.md"],
    ),
    "what was moved over a protected file that was there": (
        [Effect(".envrc", ONE, None), Effect("AGENTS.md", OTHER, ONE)],
        [".envrc", "AGENTS.md"],
    ),
    "a copy of the ledger": ([Effect("backup/agent_trace.jsonl", None, ONE)], []),
    "a ledger below a folder of governance": (
        [Effect("sub/.orchestration/active_intents.yaml", None, ONE)],
        ["sub/.orchestration/active_intents.yaml"],
    ),
}


@pytest.mark.parametrize(("effects", "back"), MOVES.values(), ids=MOVES.keys())
def test_only_protected_parts_of_a_move_are_restored(effects: list[Effect], back: list[str]):
    assert protected_paths(effects, ()) == back
    assert set(protected_paths_under_mount_sandbox(effects, ())) <= set(back)
