from rookery.core.modes import CYCLE, Level, level_named, next_level
from support.each_row import each_row

WORDS = {
    "ask": Level.ASK,
    "default": Level.ASK,
    "dontAsk": Level.ASK,
    "untrusted": Level.ASK,
    "edits": Level.EDITS,
    "acceptEdits": Level.EDITS,
    "auto_edit": Level.EDITS,
    "plan": Level.PLAN,
    "sandboxed": Level.SANDBOXED,
    "on-request": Level.SANDBOXED,
    "auto": Level.AUTO,
    "bypassPermissions": Level.AUTO,
    "never": Level.AUTO,
    "yolo": Level.AUTO,
    "everything": None,
    "": None,
}


@each_row(("word", "level"), WORDS.items())
def test_level_names_of_other_agents_are_accepted(word: str, level: Level | None):
    assert level_named(word) is level


def test_the_key_goes_through_the_levels_that_can_be_had():
    seen = [Level.ASK]
    for _ in range(4):
        seen.append(next_level(seen[-1], sandboxed=False))
    assert seen == [Level.ASK, Level.EDITS, Level.PLAN, Level.AUTO, Level.ASK]
    assert [next_level(each, sandboxed=True) for each in CYCLE] == [*CYCLE[1:], CYCLE[0]]
    assert next_level(Level.SANDBOXED, sandboxed=False) is Level.AUTO
