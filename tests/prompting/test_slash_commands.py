from pathlib import Path

import pytest

from rookery.core.instructions import SlashCommand
from rookery.prompting.skills_and_commands import BUILT_IN, INIT, CommandFiles, FoundCommands
from support.config_folders import ConfigBench


@pytest.fixture
def bench(tmp_path: Path) -> ConfigBench:
    return ConfigBench(tmp_path)


def read(bench: ConfigBench, *, trusted: bool = True) -> FoundCommands:
    return CommandFiles(bench.places(trusted=trusted)).read()


def named(found: FoundCommands, name: str) -> SlashCommand:
    return next(command for command in found.commands if command.name == name)


def test_init_is_built_in(bench: ConfigBench):
    assert read(bench) == FoundCommands(commands=BUILT_IN)
    assert "AGENTS.md" in INIT.content


def test_a_command_is_a_file_with_front_matter(bench: ConfigBench):
    bench.put(
        ".rookery/commands/inspect.md",
        "---\ndescription: Review it\nargument-hint: [branch]\nmode: ask\n---\n\nLook at $1.\n",
    )
    assert named(read(bench), "inspect") == SlashCommand(
        name="inspect",
        content="Look at $1.",
        description="Review it",
        argument_hint="[branch]",
        mode="ask",
        origin="project",
        path=".rookery/commands/inspect.md",
    )


def test_user_commands_override_built_in_ones_and_project_commands_do_not(bench: ConfigBench):
    for place in (".roo", ".rookery"):
        bench.put(f"{place}/commands/init.md", f"of {place}")
        assert named(read(bench), "init") == INIT
    assert read(bench).problems == (
        "The project's own command /init is not used: it is a built-in name.",
    )
    for place in ("~/.roo", "config"):
        bench.put(f"{place}/commands/init.md", f"of {place}")
        assert named(read(bench), "init").content == f"of {place}"
    assert read(bench).problems == (
        "The project's own command /init is not used: you have a command with that name.",
    )
    assert named(read(bench, trusted=False), "init").content == "of config"
    assert read(bench, trusted=False).problems == ()


def test_the_rookery_folder_wins_over_the_roo_folder(bench: ConfigBench):
    for place in (".roo", ".rookery"):
        bench.put(f"{place}/commands/look.md", f"of {place}")
        assert named(read(bench), "look").content == f"of {place}"


def test_a_project_does_not_replace_an_unreadable_user_command(
    bench: ConfigBench,
):
    bench.put("config/commands/deploy.md", "---\nno end")
    bench.put(".roo/commands/deploy.md", "of the project")
    found = read(bench)
    assert found.commands == BUILT_IN
    assert [name for name, _ in found.unreadable] == ["deploy"]
    bench.put("~/.roo/commands/deploy.md", "of the user")
    assert named(read(bench), "deploy").content == "of the user"


@pytest.mark.parametrize("name", ["a b.md", "readme.txt", ".md"])
def test_other_files_are_not_commands(bench: ConfigBench, name: str):
    bench.put(f".roo/commands/{name}", "x")
    assert read(bench).commands == BUILT_IN


def test_a_linked_command_inside_the_workspace_is_named_after_its_link(bench: ConfigBench):
    bench.put("docs/how.md", "inside")
    bench.put("elsewhere/how.md", "outside")
    bench.link(".roo/commands/here.md", bench.root / "docs/how.md")
    bench.link(".roo/commands/there.md", bench.outside / "how.md")
    found = read(bench)
    assert [command.name for command in found.commands] == ["here", "init", "review"]
    assert "there.md is skipped: it points outside the workspace" in found.problems[0]


@pytest.mark.parametrize("text", ["---\ndescription: [a, b]\n---\nx", "---\n- a\n---\n"])
def test_a_faulty_command_is_skipped_and_reported(bench: ConfigBench, text: str):
    bench.put(".roo/commands/x.md", text)
    found = read(bench)
    assert found.commands == BUILT_IN
    assert found.problems[0].startswith("The command .roo/commands/x.md is skipped: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "---\nno end",
            "The command .roo/commands/x.md is skipped: its front matter has no closing ---.",
        ),
        (b"\0\1\2", ".roo/commands/x.md is skipped: it is not a text file."),
    ],
)
def test_an_unreadable_command_is_listed_with_the_reason(
    bench: ConfigBench, text: str | bytes, reason: str
):
    bench.put(".roo/commands/x.md", text)
    found = read(bench)
    assert found.commands == BUILT_IN
    assert found.unreadable == (("x", reason),)
    assert found.problems == (reason,)


def test_a_faulty_project_command_leaves_the_users_command_usable(bench: ConfigBench):
    bench.put(".roo/commands/x.md", "---\nno end")
    bench.put("~/.roo/commands/x.md", "of the user")
    found = read(bench)
    assert named(found, "x").content == "of the user"
    assert found.unreadable == ()
    assert found.problems
