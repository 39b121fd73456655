"""Which changes of a command are put back."""

import pytest

from rookery.core.facts import Effect, Version
from rookery.governance.shielded import nothing_shielded, shielded

FILE = Version("ab", 0o100644)


def made(*paths: str) -> list[Effect]:
    return [Effect(path, None, FILE) for path in paths]


BARE = ("HEAD", "config", "objects", "refs/heads/main")
CASES = {
    "PROT-1 protected": (made(".envrc", "a.txt"), [".envrc"]),
    "PROT-1 of builds": (made("Makefile"), []),
    "PROT-1 repository below": (
        made(*(f"a/lib/{part}" for part in BARE), "a/lib/x.py"),
        [f"a/lib/{part}" for part in BARE],
    ),
    "PROT-1 repository at the top": (made(*BARE, "x.py"), list(BARE)),
    "PROT-1 in other letters": (made("l/head", "l/Objects/a", "l/REFS/b"), None),
    "PROT-1 not all of one": (made("lib/HEAD", "lib/objects/a"), []),
    "PROT-1 parts in different folders": (made("a/HEAD", "b/objects/x", "c/refs/y"), []),
    "PROT-1 changed, not made": (
        [*made("lib/HEAD", "lib/objects/a"), Effect("lib/refs/b", FILE, FILE)],
        [],
    ),
}


@pytest.mark.parametrize(("effects", "back"), CASES.values(), ids=CASES.keys())
def test_what_is_put_back(effects: list[Effect], back: list[str] | None):
    everything = [effect.path for effect in effects]
    assert shielded(effects, ()) == (everything if back is None else back)
    assert nothing_shielded(effects, ()) == []


def test_PROT_1_what_was_asked_about_by_its_name_stays_but_no_repository():
    assert shielded(made(".envrc"), {".envrc"}) == []
    assert shielded(made("HEAD", "objects/a", "refs/b"), {"HEAD"}) == [
        "HEAD",
        "objects/a",
        "refs/b",
    ]
