import os
import time
from pathlib import Path

import pytest

from rookery.core.instructions import Rule, Rules
from rookery.prompting.config_files import LARGEST
from rookery.prompting.rules import (
    MOST_BYTES,
    MOST_NESTED,
    SEARCH_INTERVAL,
    RuleFiles,
)
from support.config_folders import ConfigBench

FILES = 1000 if os.environ.get("ROOKERY_TORTURE") else 50
"""In each folder, which together are as large."""


@pytest.fixture
def bench(tmp_path: Path) -> ConfigBench:
    return ConfigBench(tmp_path)


def read(bench: ConfigBench, mode: str = "code", *, trusted: bool = True, **more: bool) -> Rules:
    return RuleFiles(bench.places(trusted=trusted), **more).read(mode)


def paths(rules: tuple[Rule, ...]) -> list[str]:
    return [rule.path for rule in rules]


def test_user_rules_come_before_project_rules(bench: ConfigBench):
    bench.put("config/rules/z.md", "mine")
    bench.put("~/.roo/rules/y.md", "mine too")
    bench.put(".rookery/rules/b.md", "ours")
    bench.put(".roo/rules/a.md", "theirs")
    rules = read(bench).general
    assert paths(rules) == [
        "~/.roo/rules/y.md",
        "~/.config/product/rules/z.md",
        ".roo/rules/a.md",
        ".rookery/rules/b.md",
    ]
    assert [rule.origin for rule in rules] == ["user", "user", "project", "project"]


def test_the_rookery_folder_wins_for_rules_of_the_same_name(bench: ConfigBench):
    bench.put(".rookery/rules/deep/a.md", "ours")
    bench.put(".roo/rules/deep/a.md", "theirs")
    bench.put(".roo/rules/a.md", "another")
    assert [rule.text for rule in read(bench).general] == ["another", "ours"]


def test_mode_rules_apply_to_that_mode_only(bench: ConfigBench):
    bench.put(".rookery/rules-debug/a.md", "debugging")
    assert paths(read(bench, "debug").for_mode) == [".rookery/rules-debug/a.md"]
    assert read(bench, "code").for_mode == ()


@pytest.mark.parametrize("name", ["x.bak", "x.swp", ".DS_Store", "Thumbs.db", "x.log", "x.tmp"])
def test_files_that_are_not_rules_are_skipped(bench: ConfigBench, name: str):
    bench.put(f".roo/rules/{name}", "noise")
    assert read(bench) == Rules()


@pytest.mark.parametrize("ending", ["", "-code"])
def test_legacy_rule_files_count_only_without_rule_folders(bench: ConfigBench, ending: str):
    bench.put(f".roorules{ending}", " \n")
    bench.put(f".clinerules{ending}", "old")
    found = read(bench)
    assert paths(found.for_mode if ending else found.general) == [f".clinerules{ending}"]
    bench.put(f"~/.roo/rules{ending}/a.md", "new")
    found = read(bench)
    assert paths(found.for_mode if ending else found.general) == [f"~/.roo/rules{ending}/a.md"]


def test_a_folder_named_like_a_legacy_rule_file_is_not_reported(bench: ConfigBench):
    bench.put(".clinerules/a.md", "x")
    assert read(bench) == Rules()


@pytest.mark.parametrize(
    ("there", "used"),
    [
        ("AGENTS.md AGENT.md AGENTS.local.md", "AGENTS.md AGENTS.local.md"),
        ("AGENT.md", "AGENT.md"),
        ("AGENTS.local.md", "AGENTS.local.md"),
        ("README.md", ""),
    ],
)
def test_instruction_files_of_the_workspace_are_read(bench: ConfigBench, there: str, used: str):
    for name in there.split():
        bench.put(name, f"text of {name}")
    assert paths(read(bench).of_agents) == used.split()
    assert read(bench, agent_files=False).of_agents == ()


def test_rule_folders_inside_the_workspace_come_last(bench: ConfigBench):
    bench.put(".roo/rules/z.md", "top")
    bench.put("b/.roo/rules/a.md", "b")
    bench.put("a/.rookery/rules-code/a.md", "a")
    found = read(bench)
    assert paths(found.general) == [".roo/rules/z.md", "b/.roo/rules/a.md"]
    assert paths(found.for_mode) == ["a/.rookery/rules-code/a.md"]
    assert paths(read(bench, subfolders=False).general) == [".roo/rules/z.md"]


def test_linked_folders_are_not_searched_for_nested_rules(bench: ConfigBench):
    bench.put("elsewhere/.roo/rules/a.md", "secret")
    bench.link("src", bench.outside)
    assert read(bench) == Rules()


def test_project_rules_are_read_only_in_a_trusted_project(bench: ConfigBench):
    bench.put("config/rules/a.md", "mine")
    for path in (".rookery/rules/b.md", ".roo/rules-code/c.md", "AGENTS.md", "src/AGENTS.md"):
        bench.put(path, "theirs")
    bench.put(".clinerules-code", "theirs")
    found = read(bench, trusted=False)
    assert [rule.text for rule in found.general] == ["mine"]
    assert (found.for_mode, found.of_agents, found.problems) == ((), (), ())


def test_rules_beyond_the_total_limit_are_skipped_and_reported(bench: ConfigBench):
    for number in range(MOST_BYTES // LARGEST + 2):
        bench.put(f".roo/rules/{number}.md", "x" * LARGEST)
    found = read(bench)
    assert len(found.general) == MOST_BYTES // LARGEST
    assert len(found.problems) == 2
    assert "too long in total" in found.problems[0]


@pytest.mark.parametrize("crowd", ["rules-code", "rules", "AGENTS", "nested"])
def test_project_rules_do_not_crowd_out_the_users_rules(bench: ConfigBench, crowd: str):
    bench.put("config/rules/mine.md", "mine")
    bench.put("config/rules-code/mine.md", "mine in code")
    bench.put("AGENTS.md", "x" * LARGEST)
    for number in range(MOST_BYTES // LARGEST + 2):
        match crowd:
            case "AGENTS":
                bench.put("AGENTS.local.md", "x" * LARGEST)
                bench.put(f".roo/rules-code/{number}.md", "x" * LARGEST)
            case "nested":
                for each in range(FILES):
                    bench.put(f"sub{number}/.roo/rules-code/{each}.md", "x" * (200_000 // FILES))
            case _:
                bench.put(f".roo/{crowd}/{number}.md", "x" * LARGEST)
    found = read(bench)
    assert "mine" in [rule.text for rule in found.general]
    assert "mine in code" in [rule.text for rule in found.for_mode]
    total = sum(len(rule.text) for rule in (*found.for_mode, *found.of_agents, *found.general))
    assert total <= 2 * MOST_BYTES + LARGEST


def test_only_some_of_very_many_rule_folders_are_read(bench: ConfigBench):
    for number in range(MOST_NESTED + 5):
        bench.put(f"sub{number:03}/.roo/rules/a.md", "x")
    found = read(bench)
    assert len(found.general) == MOST_NESTED
    assert found.problems == (
        f"Only {MOST_NESTED} of {MOST_NESTED + 5} folders with rules are used.",
    )


def test_rules_stay_identical_until_a_rule_file_changes(bench: ConfigBench):
    bench.put(".rookery/rules/a.md", "one")
    bench.put("src/.roo/rules/a.md", "x")
    files = RuleFiles(bench.places(trusted=True))
    first = files.read("code")
    assert files.read("code") == first
    bench.put("src/b.py", "work goes on")
    assert files.read("code") == first
    bench.put(".rookery/rules/a.md", "two")
    assert [rule.text for rule in files.read("code").general] == ["two", "x"]


def test_nested_folders_are_searched_again_only_after_an_interval(bench: ConfigBench):
    clock = [time.time_ns()]
    files = RuleFiles(bench.places(trusted=True), now=lambda: clock[0])
    assert files.read("code").general == ()
    bench.put("src/.roo/rules/a.md", "x")
    assert files.read("code").general == ()
    clock[0] += int(SEARCH_INTERVAL * 10**9)
    assert [each.text for each in files.read("code").general] == ["x"]
