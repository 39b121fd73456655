"""Definitions of other agents become definitions of ours."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rookery.mcp.foreign_servers import (
    AGENTS,
    ForeignServer,
    UnreadableFile,
    converted,
    foreign_servers,
)

HTTP = {"type": "streamable-http", "url": "https://x.test/mcp"}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a program, permissions left behind": (
        {"type": "stdio", "command": "a", "args": ["b"], "env": {"K": "v"}, "alwaysAllow": ["x"]},
        {"command": "a", "args": ["b"], "env": {"K": "v"}},
    ),
    "trust and autoApprove are permissions": (
        {"command": "a", "trust": True, "autoApprove": ["*"]},
        {"command": "a"},
    ),
    "opencode has the whole line in command": (
        {"type": "local", "command": ["npx", "-y", "p"], "environment": {"A": "b"}},
        {"command": "npx", "args": ["-y", "p"], "env": {"A": "b"}},
    ),
    "opencode remote": ({"type": "remote", "url": HTTP["url"], "enabled": True}, HTTP),
    "Cursor has no type": ({"url": HTTP["url"]}, HTTP),
    "Claude Code http": ({"type": "http", "url": HTTP["url"]}, HTTP),
    "Cline spells it in camel case": ({"type": "streamableHttp", "url": HTTP["url"]}, HTTP),
    "Gemini httpUrl": ({"httpUrl": HTTP["url"], "timeout": 600000}, HTTP),
    "sse stays sse": (
        {"type": "sse", "url": "https://x.test/sse"},
        {"type": "sse", "url": "https://x.test/sse"},
    ),
    "Codex token in a variable": (
        {"url": HTTP["url"], "bearer_token_env_var": "T", "env_http_headers": {"X-A": "A"}},
        {**HTTP, "headers": {"X-A": "${env:A}", "Authorization": "Bearer ${env:T}"}},
    ),
    "switched off": ({"command": "a", "disabled": True}, {"command": "a", "disabled": True}),
    "not enabled": ({"command": "a", "enabled": False}, {"command": "a", "disabled": True}),
    "excluded tools": (
        {"command": "a", "excludeTools": ["rm"]},
        {"command": "a", "disabledTools": ["rm"]},
    ),
    "nonsense": ({"url": HTTP["url"], "headers": ["x"], "env_http_headers": 3}, HTTP),
}


@pytest.mark.parametrize(("theirs", "ours"), CASES.values(), ids=CASES)
def test_definitions_are_converted(theirs: dict[str, Any], ours: dict[str, Any]):
    assert converted(theirs)[0] == ours


def test_variables_are_spelled_our_way():
    raw = {"command": "a", "env": {"K": "{env:KEY}", "L": "$KEY ${OTHER}"}}
    opencode, gemini = AGENTS["opencode"].variable, AGENTS["gemini"].variable
    assert converted(raw, opencode)[0]["env"]["K"] == "${env:KEY}"
    assert converted(raw, gemini)[0]["env"]["L"] == "${env:KEY} ${OTHER}"


def test_what_only_the_other_agent_fills_in_is_noted():
    _, notes = converted({"command": "a", "env": {"K": "${input:key}"}})
    assert notes == ("${input:key} is not filled in here; replace it with a value or ${env:NAME}.",)


def _one(name: str, command: str) -> str:
    return json.dumps({"mcpServers": {name: {"command": command}}})


CLAUDE = {
    "mcpServers": {"c": {"command": "1"}},
    "projects": {
        "/w": {"mcpServers": {"local": {"command": "2"}}, "y": 1},
        "/other": {"mcpServers": {"no": {"command": "x"}}},
    },
}
EXTENSIONS = ".config/Code/User/globalStorage"
FILES = {
    ".claude.json": json.dumps(CLAUDE),
    ".config/Claude/claude_desktop_config.json": _one("desk", "3"),
    ".cursor/mcp.json": _one("cur", "4"),
    ".codex/config.toml": '[mcp_servers.dex]\ncommand = "5"\nargs = ["b"]\n',
    ".gemini/settings.json": _one("gem", "6"),
    ".config/opencode/opencode.jsonc": '{"mcp": {"open": {"command": ["7"]},},} // end',
    ".config/Code/User/mcp.json": '{/* x */ "servers": {"code": {"command": "//8"}}}',
    f"{EXTENSIONS}/rooveterinaryinc.roo-cline/settings/mcp_settings.json": _one("roo", "9"),
    f"{EXTENSIONS}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json": _one("cline", "10"),
    f"{EXTENSIONS}/kilocode.kilo-code/settings/mcp_settings.json": _one("kilo", "11"),
}


def test_servers_of_every_agent_are_found_and_no_file_is_changed(tmp_path: Path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [each for each in foreign_servers(tmp_path, {}, Path("/w"))]
    assert [(each.agent, each.name) for each in found if isinstance(each, ForeignServer)] == [
        ("claude", "local"),
        ("claude", "c"),
        ("claude-desktop", "desk"),
        ("cursor", "cur"),
        ("codex", "dex"),
        ("gemini", "gem"),
        ("opencode", "open"),
        ("vscode", "code"),
        ("roo", "roo"),
        ("cline", "cline"),
        ("kilo", "kilo"),
    ]
    assert [(tmp_path / name).read_text() for name in FILES] == list(FILES.values())


def test_an_unreadable_file_is_reported_without_its_content(tmp_path: Path):
    (tmp_path / ".claude.json").write_text(json.dumps({"key": "s3cret"})[:-2])
    (tmp_path / ".cursor").mkdir()
    os.mkfifo(tmp_path / ".cursor/mcp.json")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text("/*" * 2**20)  # in linear time
    assert list(foreign_servers(tmp_path, {}, tmp_path)) == [
        UnreadableFile(tmp_path / ".claude.json", "it is not valid JSON"),
        UnreadableFile(tmp_path / ".cursor/mcp.json", "it is not a regular file"),
        UnreadableFile(tmp_path / ".gemini/settings.json", "it is not valid JSON"),
    ]
