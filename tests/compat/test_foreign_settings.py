"""Settings, modes, rules and MCP servers of other agents: found, and copied on request."""

import json
import os
from pathlib import Path

import pytest

from rookery.app.foreign_settings import LARGEST, foreign_settings
from support.terminal_session import Installed

STORE = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings"
MODES = (
    "customModes:\n- slug: tester\n  name: Tester\n  roleDefinition: You test.\n  groups: [read]\n"
)
CODEX = """
model = "gpt-5"
model_reasoning_effort = "high"
approval_policy = "never"
[mcp_servers.docs]
command = "uvx"
"""


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def write(home: Path, **files: str) -> None:
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (".claude/CLAUDE.md", "Use tabs.", [("rules", "in place", "")]),
        ("work/.roomodes", MODES, [("modes", "in place", "in a folder you trust")]),
        (
            ".claude/settings.json",
            '{"model": "claude-opus-5"}',
            [("provider", "copy", "anthropic"), ("model", "copy", "claude-opus-5")],
        ),
        (".claude/settings.json", '{"model": "opus"}', []),
        (
            ".codex/config.toml",
            CODEX,
            [
                ("provider", "copy", "openai"),
                ("model", "copy", "gpt-5"),
                ("reasoning_effort", "copy", "high"),
                (
                    "permissions",
                    "not copied",
                    "they apply only to codex; see rookery config",
                ),
                ("MCP server", "copy", "docs"),
            ],
        ),
        (
            ".codex/config.toml",
            'model = "m"\nmodel_provider = "own"',
            [("model", "not copied", "m of own: choose it with rookery --provider and -m")],
        ),
        (".codex/config.toml", "model = [", [("settings", "not copied", "it is not valid TOML")]),
        (".codex/config.toml", "model = 5\nmodel_reasoning_effort = []", []),
        (".codex/auth.json", "{}", [("key", "not copied", "store one with: rookery auth")]),
        (
            ".config/opencode/opencode.json",
            '{"model": "google/gemini-3", // the best\n}',
            [("provider", "copy", "gemini"), ("model", "copy", "gemini-3")],
        ),
        (".gemini/settings.json", '{"model": {"name": ["x"]}}', []),
        (".gemini/commands/a.toml", "prompt = 1", [("commands", "not copied", "it has no prompt")]),
        ("Documents/Cline/Rules/a.md", "Use tabs.", [("rules", "copy", "")]),
        ("Documents/Cline/Rules/a b.md", "x", [("rules", "not copied", "rename it first")]),
        (
            ".kilocode/rules/a.md",
            "x" * (LARGEST + 1),
            [("rules", "not copied", "it is larger than 32 KiB")],
        ),
        (
            "work/.clinerules/a.md",
            "x",
            [("rules", "not copied", "copy its files to .rookery/rules")],
        ),
        (f"{STORE}/custom_modes.yaml", MODES, [("modes", "copy", "")]),
    ],
)
def test_what_is_found(name: str, text: str, found: list[tuple[str, str, str]], tmp_path: Path):
    write(tmp_path, **{name: text})
    settings = foreign_settings(tmp_path, {}, tmp_path / "work")
    assert [(each.kind, each.use, each.note) for each in settings] == found


def test_a_command_of_gemini_in_our_form(tmp_path: Path):
    text = 'description = "Look \\"twice\\""\nprompt = "See {{args}} in @{a.md}, run !{git diff}"'
    write(tmp_path, **{".gemini/commands/git/look.toml": text})
    [found] = foreign_settings(tmp_path, {}, tmp_path)
    assert found.target == "commands/git/look.md"
    assert found.text == (
        '---\ndescription: "Look \\"twice\\""\n---\nSee $ARGUMENTS in @a.md, run !`git diff`\n'
    )


def test_settings_are_listed_and_copied_once(rookery: Installed):
    write(
        Path(rookery.environ["HOME"]),
        **{
            ".codex/config.toml": CODEX,
            ".gemini/commands/look.toml": 'prompt = "Look at {{args}}"',
            f"{STORE}/custom_modes.yaml": MODES,
        },
    )
    listed = json.loads(rookery.run("import", "--settings", "--json").stdout)["settings"]
    assert {each["agent"] for each in listed} == {"codex", "gemini", "roo"}
    assert rookery.run("config", "get", "model").stdout == ""
    for agent, count in (("codex", 4), ("gemini", 1), ("roo", 1)):
        done = rookery.run("import", agent, "--settings")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (
            0,
            f"Copied {count} setting{'s' if count > 1 else ''}.",
        )
    assert rookery.run("config", "get", "model").stdout == "gpt-5\n"
    assert rookery.run("config", "get", "reasoning_effort").stdout == "high\n"
    assert "docs" in rookery.run("mcp", "list").stdout
    assert "tester" in rookery.run("modes").stdout
    assert "/look" in rookery.run("context").stdout
    again = rookery.run("import", "codex", "--settings")
    assert (again.returncode, "You have set" in again.stdout) == (9, True)
    assert "already has a server docs" in again.stderr


def test_files_that_are_no_files_and_odd_names(rookery: Installed):
    rules = Path(rookery.environ["HOME"]) / "Documents/Cline/Rules"
    rules.mkdir(parents=True)
    os.mkfifo(rules / "pipe.md")
    (rules / "loop.md").symlink_to("loop.md")
    (rules / "\x1b[31mred.md").write_text("x")
    write(Path(rookery.environ["HOME"]), **{".claude/settings.json": "[" * 100_000})
    done = rookery.run("import", "--settings")
    assert (done.returncode, "\x1b" in done.stdout, "red.md" in done.stdout) == (0, False, True)
    assert "not valid JSON" in done.stdout
