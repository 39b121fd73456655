from rookery.core.modes import (
    BUILT_IN,
    DEFAULT,
    Group,
    Mode,
    find_mode,
    gains,
    may_change,
    merged,
    offers,
    why_not,
)
from support.each_row import each_row

BY_SLUG = {mode.slug: mode for mode in BUILT_IN}


def test_there_are_five_modes_and_code_is_the_default():
    assert set(BY_SLUG) == {"code", "ask", "architect", "debug", "orchestrator"}
    assert DEFAULT == BUILT_IN[0].slug == "code"


@each_row(
    ("slug", "groups"),
    [
        ("code", "read edit command mcp"),
        ("ask", "read mcp"),
        ("architect", "read edit mcp"),
        ("debug", "read edit command mcp"),
        ("orchestrator", ""),
    ],
)
def test_each_mode_has_its_groups_and_the_common_ones(slug: str, groups: str):
    had = [name for name in ("read", "edit", "command", "mcp") if offers(BY_SLUG[slug], name)]
    assert had == groups.split()
    assert offers(BY_SLUG[slug], "always")
    assert offers(BY_SLUG[slug], "modes")


@each_row(
    ("slug", "path", "may"),
    [
        ("architect", "plans/next.md", True),
        ("architect", "src/a.py", False),
        ("architect", "a.md/src.py", False),
        ("code", "src/a.py", True),
        ("ask", "notes.md", False),
    ],
)
def test_a_mode_edits_only_files_that_match_its_pattern(slug: str, path: str, may: bool):
    assert may_change(BY_SLUG[slug], path) is may


def test_the_refusal_names_tool_mode_pattern_description_and_path():
    said = why_not(BY_SLUG["architect"], "apply_diff", "src/a.py")
    for word in ("architect", "apply_diff", r"\.md$", "Markdown files only", "src/a.py"):
        assert word in said
    said = why_not(BY_SLUG["ask"], "execute_command")
    assert "Mode ask does not have execute_command" in said


def test_a_later_layer_replaces_a_mode_in_its_place():
    mine = Mode(slug="ask", name="Mine", role="r", source="user")
    theirs = Mode(slug="ask", name="Theirs", role="r", source="project")
    more = Mode(slug="more", name="More", role="r")
    modes = merged(BUILT_IN, [mine], [theirs, more])
    assert [mode.slug for mode in modes] == [*BY_SLUG, "more"]
    assert find_mode(modes, "ask") == theirs
    assert find_mode(modes, "none") is None


@each_row(
    ("current", "target", "more"),
    [
        ("ask", "code", ("edit", "command")),
        ("architect", "code", ("edit", "command")),
        ("code", "ask", ()),
        ("code", "debug", ()),
        ("code", "architect", ()),
    ],
)
def test_extra_rights_of_a_mode_are_listed(current: str, target: str, more: tuple[str, ...]):
    assert gains(BY_SLUG[current], BY_SLUG[target]) == more


def test_a_different_file_pattern_counts_as_extra_rights():
    one = Mode(slug="a", name="a", role="r", groups=(Group("edit", "a"), Group("modes")))
    other = Mode(slug="b", name="b", role="r", groups=(Group("edit", "b"), Group("modes")))
    assert gains(one, other) == ("edit",)
    assert gains(one, one) == ()
