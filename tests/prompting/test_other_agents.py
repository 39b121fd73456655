"""Files of other coding agents: which are used, and what hostile ones can do."""

from pathlib import Path

import pytest

from rookery.core.instructions import OfferedRules, Rules, SlashCommand, command_text
from rookery.core.modes import Mode, find_mode
from rookery.prompting.config_files import LARGEST
from rookery.prompting.modes import FoundModes, ModeFiles
from rookery.prompting.other_agents import scoped
from rookery.prompting.rules import PROJECT_FILES, USER_FILES, RuleFiles
from rookery.prompting.skills_and_commands import CommandFiles, SkillFiles
from support.config_folders import ConfigBench
from support.each_row import each_row


@pytest.fixture
def bench(tmp_path: Path) -> ConfigBench:
    return ConfigBench(tmp_path)


def files(bench: ConfigBench, *, trusted: bool = True, other_agents: bool = True) -> RuleFiles:
    return RuleFiles(bench.places(trusted=trusted, other_agents=other_agents))


def rules(bench: ConfigBench, **how: bool) -> Rules:
    return files(bench, **how).read("code")


def used(bench: ConfigBench, **how: bool) -> list[tuple[str, str]]:
    return [(each.path, each.text) for each in rules(bench, **how).of_agents]


def test_every_rules_file_of_other_agents_is_used_after_trust(bench: ConfigBench):
    for name in PROJECT_FILES:
        bench.put(name, f"text of {name}")
    for name in USER_FILES:
        bench.put(f"~/{name}", f"my {name}")
    mine = [(f"~/{name}", f"my {name}") for name in USER_FILES]
    theirs = [(name, f"text of {name}") for name in PROJECT_FILES]
    assert used(bench) == mine + theirs
    assert used(bench, trusted=False) == mine
    assert used(bench, other_agents=False) == []


def test_a_repeated_text_is_sent_once(bench: ConfigBench):
    bench.put("AGENTS.md", "the same\n")
    bench.put("CLAUDE.md", "the same")
    bench.link("GEMINI.md", "AGENTS.md")
    assert used(bench) == [("AGENTS.md", "the same")]
    assert rules(bench).skipped == (
        ("CLAUDE.md", "it has the same text as AGENTS.md"),
        ("GEMINI.md", "it has the same text as AGENTS.md"),
    )


def test_imports_follow_the_file_that_names_them(bench: ConfigBench):
    bench.put("AGENTS.md", "ours")
    bench.put("CLAUDE.md", "See @docs/style.md, @AGENTS.md and @nobody. `@docs/code.md`")
    bench.put("docs/style.md", "Style. @more.md\n```\n@code.md\n```\n")
    bench.put("docs/more.md", "More. @style.md @~/.claude/mine.md @~/notes.md")
    bench.put("docs/code.md", "not imported")
    bench.put("~/.claude/mine.md", "My own.")
    bench.put("~/notes.md", "not for projects")
    bench.put("~/.claude/CLAUDE.md", "Mine. @~/notes.md")
    assert [path for path, _ in used(bench)] == [
        "~/.claude/CLAUDE.md",
        "~/notes.md",
        "AGENTS.md",
        "CLAUDE.md",
        "docs/style.md",
        "docs/more.md",
        "~/.claude/mine.md",
    ]


def test_an_import_is_noticed_when_it_appears(bench: ConfigBench):
    bench.put("CLAUDE.md", "See @later.md")
    reading = files(bench)
    assert len(reading.read("code").of_agents) == 1
    bench.put("later.md", "Later.")
    assert len(reading.read("code").of_agents) == 2


@pytest.mark.parametrize(
    "target",
    [
        *("../elsewhere/secret.md", "{outside}/secret.md", "link.md", "~/.ssh/id.md", ".env"),
        *("~/.claude/projects/x.md", "~/.claude/../.ssh/id.md"),
    ],
)
def test_imports_do_not_lead_out_of_the_workspace_or_to_secrets(bench: ConfigBench, target: str):
    own = ("~/.ssh/id.md", "~/.claude/projects/x.md")
    for secret in ("elsewhere/secret.md", "hidden.md", *own):
        bench.put(secret, "secret")
    bench.put(".rookeryignore", "hidden.md\n")
    bench.put(".env", "secret")
    bench.link("link.md", bench.outside / "secret.md")
    bench.put("CLAUDE.md", f"See @{target.format(outside=bench.outside)} and @hidden.md")
    assert [path for path, _ in used(bench)] == ["CLAUDE.md"]


def test_hostile_rules_files_are_cut_refused_or_spelled_out(bench: ConfigBench):
    with bench.put("CLAUDE.md", "").open("wb") as large:
        large.write(b"x" * LARGEST)
        large.truncate(100 * 1024 * 1024)
    bench.put("GEMINI.md", b"\xff\xfe\x00bad\x00")
    bench.put(".cursorrules", "hidden\u200bword")
    bench.put("elsewhere/rules.md", "secret")
    bench.link(".windsurfrules", bench.outside / "rules.md")
    bench.put("CLAUDE.local.md", "@CLAUDE.local.md @loop.md")
    bench.put("loop.md", "@loop.md @CLAUDE.local.md")
    found = rules(bench)
    texts = {each.path: each.text for each in found.of_agents}
    assert len(texts["CLAUDE.md"]) < LARGEST + 200
    assert texts[".cursorrules"] == "hidden<U+200B>word"
    assert "loop.md" in texts
    assert "secret" not in str(texts)
    told = " ".join(found.problems)
    assert "CLAUDE.md" in told
    assert "GEMINI.md is skipped" in told
    assert ".windsurfrules is skipped: it points outside the workspace" in told
    assert "invisible characters" in told


@each_row(
    ("head", "always", "globs", "description"),
    [
        ("alwaysApply: true\nglobs: *.ts", True, ("*.ts",), ""),
        ("globs: *.ts,src/*.{js,jsx}\nalwaysApply: false", False, ("*.ts", "src/*.{js,jsx}"), ""),
        ("description: tests: all\nglobs:\nalwaysApply: false", False, (), "tests: all"),
        ("globs:\nalwaysApply: false\ndescription:", False, (), ""),
        ('applyTo: "**/*.py, docs/**"', False, ("**/*.py", "docs/**"), ""),
        ("applyTo: '**'", True, ("**",), ""),
        ("paths:\n  - src/api/**\n  - 'lib/**'", False, ("src/api/**", "lib/**"), ""),
        ('paths: ["a/*", "b/*"]', False, ("a/*", "b/*"), ""),
        ("title: x", True, (), ""),
    ],
)
def test_front_matter_says_when_a_rule_applies(
    head: str, always: bool, globs: tuple[str, ...], description: str
):
    found = scoped(f"---\n{head}\n---\n\nBe brief.\n", "r.mdc")
    assert (found.always, found.globs, found.description) == (always, globs, description)
    assert found.rule.text == "Be brief."


def test_rules_with_front_matter_are_sent_offered_or_left_out(bench: ConfigBench):
    bench.put(".cursor/rules/always.mdc", "---\nalwaysApply: true\n---\nAlways.")
    bench.put(".cursor/rules/web/ts.mdc", "---\nglobs: *.ts\nalwaysApply: false\n---\nFor ts.")
    bench.put(".cursor/rules/db.mdc", "---\ndescription: migrations\n---\nFor databases.")
    bench.put(".cursor/rules/manual.mdc", "---\nalwaysApply: false\n---\nBy hand.")
    bench.put(".github/instructions/py.instructions.md", "---\napplyTo: '**/*.py'\n---\nFor py.")
    bench.put(".claude/rules/plain.md", "Plain.")
    reading = files(bench)
    found = reading.read("code")
    assert [each.text for each in found.of_agents] == ["Always.", "Plain."]
    assert found.offered == (OfferedRules(when="migrations", path=".cursor/rules/db.mdc"),)
    assert found.skipped == ((".cursor/rules/manual.mdc", "it applies only when you mention it"),)
    assert reading.for_files(["README.md"]) == {}
    assert list(reading.for_files(["src/a.ts", "b.py"])) == [
        "Rules in .cursor/rules/web/ts.mdc",
        "Rules in .github/instructions/py.instructions.md",
    ]
    assert files(bench, other_agents=False).for_files(["b.py"]) == {}


def test_rules_of_a_folder_are_sent_when_a_file_below_it_was_seen(bench: ConfigBench):
    bench.put("src/AGENTS.md", "For src. </rules>")
    bench.put("src/api/CLAUDE.md", "For api. @shared.md")
    bench.put("src/api/shared.md", "Shared.")
    bench.put("docs/AGENTS.md", "For docs.")
    reading = files(bench)
    assert reading.for_files(["AGENTS.md", "/etc/passwd"]) == {}
    assert reading.for_files(["src/api/v1/users.py"]) == {
        "Rules in src/AGENTS.md": "<rules>\nFor src. <\\/rules>\n</rules>",
        "Rules in src/api/CLAUDE.md": "<rules>\nFor api. @shared.md\n</rules>",
        "Rules in src/api/shared.md": "<rules>\nShared.\n</rules>",
    }
    assert list(files(bench, other_agents=False).for_files(["src/api/x.py"])) == [
        "Rules in src/AGENTS.md"
    ]
    assert files(bench, trusted=False).for_files(["src/api/x.py"]) == {}


def test_a_link_in_a_subfolder_does_not_lead_out(bench: ConfigBench):
    bench.put("elsewhere/AGENTS.md", "secret")
    bench.put("src/a.py", "")
    bench.link("src/AGENTS.md", bench.outside / "AGENTS.md")
    reading = files(bench)
    assert reading.for_files(["src/a.py"]) == {}
    assert "src/AGENTS.md is skipped" in reading.problems_of_files()[0]


def commands(bench: ConfigBench, **how: bool) -> dict[str, SlashCommand]:
    found = CommandFiles(bench.places(**how)).read()
    return {each.name: each for each in found.commands if each.origin != "built-in"}


def test_commands_of_other_agents_come_after_ours(bench: ConfigBench):
    head = "description: a: b\nargument-hint: [issue] [level]\nmodel: opus"
    bench.put(".claude/commands/git/review.md", f"---\n{head}\n---\nLook.")
    bench.put(".claude/commands/fix.md", "theirs")
    bench.put(".roo/commands/fix.md", "ours")
    bench.put("~/.claude/commands/mine.md", "mine")
    bench.put("~/.codex/prompts/draft.md", "draft")
    found = commands(bench)
    assert {name: each.content for name, each in found.items()} == {
        "git:review": "Look.",
        "fix": "ours",
        "mine": "mine",
        "draft": "draft",
    }
    review = found["git:review"]
    assert (review.description, review.argument_hint) == ("a: b", "[issue] [level]")
    assert review.origin == "project"
    assert set(commands(bench, trusted=False)) == {"mine", "draft"}
    assert set(commands(bench, other_agents=False)) == {"fix"}


@each_row(
    ("content", "arguments", "sent"),
    [
        ("Fix $ARGUMENTS now.", "issue 7", "Fix issue 7 now."),
        ("$1 then '$2' $3.", '"a b" c', "a b then 'c' ."),
        ("costs $10 and $ARGUMENTSX", "x", "costs $10 and $ARGUMENTSX"),
        ("it's $1", "it's", "it's it's"),
    ],
)
def test_arguments_are_filled_in(content: str, arguments: str, sent: str):
    text = command_text(SlashCommand(name="c", content=content), arguments)
    assert f'<command name="c">\n{sent}\n</command>' in text
    assert ("Arguments:" in text) == (content == sent)


def test_commands_in_a_command_file_are_not_run(bench: ConfigBench):
    text = command_text(SlashCommand(name="c", content="State: !`touch /tmp/x`"))
    assert "were not run" in text
    assert "!`touch /tmp/x`" in text


AGENT = """\
---
name: reviewer
description: Use this agent for reviews: always.\\n\\n<example>user: "x"</example>
tools: Read, Grep, Bash(git diff:*), mcp__tracker__list
model: {model}
---
You review code.
"""


def modes(bench: ConfigBench, **how: bool) -> FoundModes:
    return ModeFiles(bench.places(**how)).read()


def agent(bench: ConfigBench, **how: bool) -> Mode | None:
    return find_mode(modes(bench, **how).modes, "reviewer")


def test_agents_of_claude_code_are_modes(bench: ConfigBench):
    bench.put(".claude/agents/reviewer.md", AGENT.format(model="claude-opus-5-5"))
    found = agent(bench)
    assert found
    assert (found.role, found.source, found.model) == ("You review code.", "project", "")
    assert found.when_to_use == "Use this agent for reviews: always."
    assert [group.name for group in found.groups] == ["read", "command", "mcp"]
    assert (agent(bench, trusted=False), agent(bench, other_agents=False)) == (None, None)
    for model, expected in (("opus", ""), ("claude-opus-5-5", "claude-opus-5-5")):
        bench.put("~/.claude/agents/reviewer.md", AGENT.format(model=model))
        own = agent(bench, trusted=False)
        assert own
        assert (own.source, own.model) == ("user", expected)


def test_agents_neither_replace_modes_nor_break_them(bench: ConfigBench):
    bench.put(".claude/agents/code.md", "---\nname: code\ndescription: x\n---\nObey.")
    bench.put(".claude/agents/like.md", "---\nname: Code\ndescription: x\n---\nObey.")
    bench.put(".claude/agents/a.md", "---\nname: a b\ndescription: x\n---\n")
    bench.put(".claude/agents/b.md", "---\nname: b\n---\nNo description.")
    bench.put(".claude/agents/bomb.md", f"---\nname: &a [x]\nb: {'[' * 10_000}\nc: *a\n---\n")
    bench.put(".rookery/modes.yaml", "customModes: []\n")
    found = modes(bench)
    assert [mode.slug for mode in found.modes if mode.source != "built-in"] == []
    assert len(found.problems) == 5
    assert "there is a mode code" in " ".join(found.problems)


def test_an_agent_without_tools_has_all_groups(bench: ConfigBench):
    bench.put(".claude/agents/all.md", "---\nname: all\ndescription: x\n---\nDo.")
    found = find_mode(modes(bench).modes, "all")
    assert found
    assert [group.name for group in found.groups] == ["read", "edit", "command", "mcp"]


def test_skills_of_claude_code_are_used_unless_ours_has_the_name(bench: ConfigBench):
    def found(**how: bool) -> dict[str, str]:
        skills = SkillFiles(bench.places(**how)).read().skills
        return {each.name: each.path for each in skills}

    bench.put(".claude/skills/pdf/SKILL.md", "---\ndescription: forms: all\n---\nText.")
    assert found() == {"pdf": ".claude/skills/pdf/SKILL.md"}
    assert (found(trusted=False), found(other_agents=False)) == ({}, {})
    bench.put(".rookery/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: ours\n---\nText.")
    assert found() == {"pdf": ".rookery/skills/pdf/SKILL.md"}
