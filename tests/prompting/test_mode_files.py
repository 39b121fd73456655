from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.modes import BUILT_IN, Group, Mode, find_mode
from rookery.prompting.modes import FoundModes, ModeFiles, load_modes
from support.config_folders import ConfigBench
from support.each_row import each_row

FULL = """\
customModes:
  - slug: docs
    name: Docs
    roleDefinition: You write documentation.
    whenToUse: For docs
    description: Writes
    customInstructions: |
      Be brief.
    groups:
      - read
      - - edit
        - fileRegex: \\.(md|mdx)$
          description: Markdown
      - browser
    provider: anthropic
    model: small
    source: global
"""


@pytest.fixture
def bench(tmp_path: Path) -> ConfigBench:
    return ConfigBench(tmp_path)


def read(bench: ConfigBench, *, trusted: bool = True) -> FoundModes:
    return ModeFiles(bench.places(trusted=trusted)).read()


def simple(slug: str, groups: str = "[read]", name: str = "N") -> str:
    return (
        f"customModes:\n  - slug: {slug}\n    name: {name}\n    roleDefinition: r\n"
        f"    groups: {groups}\n"
    )


def test_all_fields_of_a_mode_are_read():
    assert load_modes(FULL, "user") == (
        Mode(
            slug="docs",
            name="Docs",
            role="You write documentation.",
            when_to_use="For docs",
            description="Writes",
            instructions="Be brief.",
            groups=(Group("read"), Group("edit", r"\.(md|mdx)$", "Markdown")),
            provider="anthropic",
            model="small",
            source="user",
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + simple("a"),
        simple("a").replace("name: N", "name:\u00a0N"),
        simple("a", "[\u201cread\u201d]"),
        simple("a", "[read]").replace("- slug", "\u2013 slug"),
        simple("a", "[read]", name='"one \u201ctwo\u201d three"'),
        '{\n\t"customModes": [{"slug": "a", "name": "N", "roleDefinition": "r",\n'
        '\t"groups": ["read"]}]\n}',
    ],
    ids=["mark", "no-break space", "quotes", "dash", "quotes in quotes", "json with tabs"],
)
def test_editor_variations_of_a_mode_file_are_accepted(text: str):
    (mode,) = load_modes(text, "user")
    assert (mode.slug, mode.groups) == ("a", (Group("read"),))


@each_row("text", ["", "# nothing\n", "customModes: []\n", "customModes:\n"])
def test_a_mode_file_may_be_empty(text: str):
    assert load_modes(text, "user") == ()


@each_row(
    ("text", "reason"),
    [
        ("customModes: [", "line 1"),
        ("modes: []", "no list customModes"),
        ("customModes: [3]", "entry 1"),
        ("customModes: [{name: a}]", "entry 1 has no slug"),
        (simple("a b"), "letters, digits"),
        (simple("a", "read"), "no list of groups"),
        (simple("a", "[read, read]"), "twice"),
        (simple("a", "[root]"), "'root'"),
        (simple("a", "[[edit, {fileRegex: '('}]]"), "cannot be used"),
        (simple("a", r"[[edit, {fileRegex: '(a)\1'}]]"), "cannot be used"),
        (simple("a", "[[edit, 3]]"), "neither"),
        (simple("a").replace("roleDefinition: r", "roleDefinition: ''"), "no roleDefinition"),
        (simple("a") + simple("a").split("\n", 1)[1], "two modes a"),
        ("a: &a [x]\nb: *a", "uses a YAML alias"),
        ("[" * 300, "nested too deeply"),
        ("- " * 300, "nested too deeply"),
    ],
)
def test_a_faulty_file_is_refused_with_the_reason(text: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        load_modes(text, "user")


def test_without_mode_files_only_built_in_modes_exist(bench: ConfigBench):
    assert read(bench) == FoundModes(modes=BUILT_IN)


def test_project_modes_override_user_modes_and_modes_yaml_overrides_roomodes(bench: ConfigBench):
    bench.put("config/modes.yaml", simple("a", name="user"))
    (mode,) = load_modes(simple("a", name="user"), "user")
    own = replace(mode, path="~/.config/product/modes.yaml")
    assert find_mode(read(bench).modes, "a") == own
    bench.put(".roomodes", simple("a", name="roo"))
    assert getattr(find_mode(read(bench).modes, "a"), "name", "") == "roo"
    bench.put(".rookery/modes.yaml", simple("a", name="ours"))
    assert getattr(find_mode(read(bench).modes, "a"), "name", "") == "ours"


def test_project_modes_are_used_only_in_a_trusted_project(bench: ConfigBench):
    bench.put("config/modes.yaml", simple("mine"))
    bench.put(".roomodes", simple("theirs"))
    bench.put(".rookery/modes.yaml", "broken: [")
    found = read(bench, trusted=False)
    assert [mode.slug for mode in found.modes if mode.source != "built-in"] == ["mine"]
    assert found.problems == ()


def test_one_faulty_mode_file_leaves_the_others_usable(bench: ConfigBench):
    bench.put("config/modes.yaml", simple("mine"))
    bench.put(".roomodes", "customModes: 3")
    found = read(bench)
    assert find_mode(found.modes, "mine")
    assert found.problems == ("No mode of .roomodes is used: it has no list customModes.",)


def test_a_project_chooses_neither_provider_nor_model(bench: ConfigBench):
    bench.put(".roomodes", FULL)
    found = read(bench)
    mode = find_mode(found.modes, "docs")
    assert mode
    assert (mode.provider, mode.model, mode.source) == ("", "", "project")
    assert "cannot choose provider or model" in found.problems[0]


MARKDOWN, PYTHON = r"[edit, {fileRegex: '\.md$'}]", r"[edit, {fileRegex: '\.py$'}]"
BOUND = Group("edit", r"\.md$")
ARCHITECT = Group("edit", r"\.md$", "Markdown files only")


@pytest.mark.parametrize(
    ("slug", "users", "projects", "groups", "taken"),
    [
        ("ask", "", "[read, edit, command]", [Group("read")], "edit, command"),
        ("ask", "", "[read, mcp]", [Group("read"), Group("mcp")], ""),
        ("ask", "", "[read, modes]", [Group("read"), Group("modes")], ""),
        ("code", "", "[read]", [Group("read")], ""),
        ("code", "", f"[{MARKDOWN}]", [BOUND], ""),
        ("architect", "", "[edit]", [ARCHITECT], r"edit of files that do not match \.md$"),
        ("architect", "", f"[{PYTHON}]", [ARCHITECT], r"edit of files that do not match \.md$"),
        ("architect", "", f"[{MARKDOWN}]", [BOUND], ""),
        ("orchestrator", "", "[read, modes]", [Group("modes")], "read"),
        ("mine", "[read]", "[read, command]", [Group("read")], "command"),
        ("mine", "[]", "[edit, mcp]", [], "edit, mcp"),
        ("mine", f"[{MARKDOWN}]", "[edit]", [BOUND], r"edit of files that do not match \.md$"),
        ("mine", "[edit]", f"[{MARKDOWN}]", [BOUND], ""),
        ("code", "[read]", "[read, edit]", [Group("read")], "edit"),
        ("ask", "[read, edit]", "[read, edit]", [Group("read"), Group("edit")], ""),
        ("new", "", "[read, edit, command]", [*map(Group, ("read", "edit", "command"))], ""),
    ],
)
def test_a_project_mode_gets_no_more_groups_than_the_mode_it_replaces(
    bench: ConfigBench, slug: str, users: str, projects: str, groups: list[Group], taken: str
):
    if users:
        bench.put("config/modes.yaml", simple(slug, users))
    bench.put(".rookery/modes.yaml", simple(slug, projects, name="theirs"))
    found = read(bench)
    mode = find_mode(found.modes, slug)
    assert mode
    assert (mode.name, mode.source, list(mode.groups)) == ("theirs", "project", groups)
    instead = f"The project's mode {slug} is used here instead of yours."
    limited = (
        f"The project's mode {slug} cannot allow more than yours, so this was removed "
        f"from it: {taken}."
    )
    assert found.problems == (*([instead] if users else []), *([limited] if taken else []))


def test_two_project_mode_files_together_cannot_widen_a_user_mode(bench: ConfigBench):
    bench.put("config/modes.yaml", simple("mine", "[read]"))
    bench.put(".roomodes", simple("mine", "[read, edit]"))
    bench.put(".rookery/modes.yaml", simple("mine", "[read, edit]", name="ours"))
    mode = find_mode(read(bench).modes, "mine")
    assert mode
    assert (mode.name, mode.groups) == ("ours", (Group("read"),))


def test_a_mode_keeps_the_model_that_the_user_chose_for_it(bench: ConfigBench):
    bench.put("config/modes.yaml", FULL)
    bench.put(".roomodes", simple("docs", name="theirs"))
    mode = find_mode(read(bench).modes, "docs")
    assert mode
    assert (mode.name, mode.provider, mode.model) == ("theirs", "anthropic", "small")


def test_a_mode_file_that_links_out_of_the_workspace_is_not_read(bench: ConfigBench):
    bench.put("elsewhere/modes.yaml", simple("a"))
    bench.link(".roomodes", bench.outside / "modes.yaml")
    found = read(bench)
    assert found.modes == BUILT_IN
    assert "points outside the workspace" in found.problems[0]


@each_row("group", ["read", "command", "mcp"])
def test_a_file_pattern_that_cannot_be_enforced_is_refused(group: str):
    entry = f"{{slug: docs, name: D, roleDefinition: r, groups: [[{group}, {{fileRegex: a}}]]}}"
    with pytest.raises(ValueError, match=f"fileRegex for the group {group}"):
        load_modes(f"customModes:\n- {entry}\n", "user")
