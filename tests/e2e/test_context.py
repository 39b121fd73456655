"""`rookery context` and `/context`, in a folder with files of other agents."""

import json
from pathlib import Path
from typing import Any

from llm_server import LlmServer, finish
from support.model_words import DONE, FINISHES, system
from support.terminal_session import COMMAND, Installed, at
from support.tmux_session import TmuxSession

FILES = {
    "AGENTS.md": "Use tabs.",
    "CLAUDE.md": "Use tabs.",
    "GEMINI.md": "Short lines.",
    ".cursor/rules/ts.mdc": "---\nglobs: *.ts\n---\nFor ts.",
    ".claude/commands/fix.md": "Fix $1",
    ".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: reviews\n---\nYou review.",
    ".claude/agents/code.md": "---\nname: code\ndescription: x\n---\nObey.",
    ".claude/skills/pdf/SKILL.md": "---\ndescription: forms\n---\nText.",
    ".mcp.json": json.dumps(
        {"mcpServers": {"tracker": {"command": "touch", "args": ["started"]}, "broken": {}}}
    ),
    ".claude/settings.json": json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "name": "c", "command": "touch y"}]}]}}
    ),
    ".orchestration/hooks.json": json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "name": "h", "command": "touch x"}]}]}}
    ),
}


def put(rookery: Installed, **more: str) -> None:
    for path, text in (FILES | more).items():
        file = rookery.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def report(rookery: Installed) -> dict[str, Any]:
    done = rookery.run("context", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def own(known: dict[str, Any]) -> dict[str, str]:
    """Parts that are not built in: how each is used, by kind and name."""
    return {
        f"{part['kind']} {part['name']}": part["unused"] or ("sent" if part["sent"] else "later")
        for part in known["parts"]
        if part["source"] != "built-in"
    }


USED = {
    "rules AGENTS.md": "sent",
    "rules CLAUDE.md": "it has the same text as AGENTS.md",
    "rules GEMINI.md": "sent",
    "rules .cursor/rules/ts.mdc": "later",
    "mode reviewer": "sent",
    "skill pdf": "sent",
    "command /fix": "later",
    "mcp tracker": "later",
    "hook Stop: h": "you have not trusted it yet",
    "hook Stop: c": "hooks.import_claude is off",
}


def test_everything_is_listed_with_size_and_origin(rookery: Installed):
    put(rookery)
    known = report(rookery)
    assert own(known) == USED
    (gemini,) = (part for part in known["parts"] if part["name"] == "GEMINI.md")
    assert (gemini["path"], gemini["source"], gemini["agent"]) == ("GEMINI.md", "project", "gemini")
    problems = " ".join(known["problems"])
    assert "there is a mode code" in problems
    assert "The MCP server broken is not used: it needs a command" in problems
    assert not (rookery.workspace / "started").exists()
    with LlmServer([finish()]) as server:
        rookery.run("-p", *at(server), "go")
    inside = {"prompt", "rules", "mode", "skill"}
    sizes = [
        part["characters"] for part in known["parts"] if part["sent"] and part["kind"] in inside
    ]
    assert sum(sizes) == len(system(server.requests[0]))


def test_the_list_says_why_a_file_is_not_used(rookery: Installed):
    put(rookery, **{".rookery/settings.toml": "[context]\nother_agents = false\n"})
    off = "context.other_agents is off"
    found = own(report(rookery))
    assert {name for name, how in found.items() if how == "sent"} == {"rules AGENTS.md"}
    switched_off = (
        "rules GEMINI.md",
        "mode reviewer",
        "command /fix",
        "mcp tracker",
        "hook Stop: c",
    )
    assert {found[name] for name in switched_off} == {off}
    rookery.run("trust", "--forget")
    found = own(report(rookery))
    assert found["rules AGENTS.md"] == found["mcp tracker"] == "the folder is not trusted"
    assert "sent" not in found.values()
    assert "GEMINI.md: the folder is not trusted" in rookery.run("context").stdout


def test_the_plain_client_shows_the_use_of_the_window_and_the_rules(rookery: Installed):
    put(rookery)
    with rookery.terminal("go", *rookery.script(FINISHES)) as terminal:
        terminal.wait_for(DONE)
        terminal.type("/context")
        terminal.wait_for("tokens are used")
        terminal.wait_for("AGENTS.md, GEMINI.md")
        terminal.wait_for("Conversation")
        terminal.wait_for(DONE)
        terminal.type("/memory")
        terminal.wait_for("To edit one")
        terminal.wait_for(DONE)
        terminal.type("/quit")
        terminal.exit_code()


def test_the_full_screen_opens_a_rules_file_in_the_editor(rookery: Installed, tmp_path: Path):
    put(rookery)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/tabs/spaces/" "$1"\n')
    editor.chmod(0o700)
    environ = {**rookery.environ, "VISUAL": str(editor)}
    command = [COMMAND, *rookery.script(FINISHES)]
    with TmuxSession(command, cwd=rookery.workspace, environ=environ) as terminal:
        terminal.wait_for("What should I do?")
        terminal.type("/memory")
        terminal.press("Enter")
        terminal.wait_for("Rules files", "AGENTS.md")
        terminal.press("Enter")
        changed = rookery.workspace / "AGENTS.md"
        terminal.wait_until(lambda _: changed.read_text() == "Use spaces.", "the edited file")
