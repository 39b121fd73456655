"""Modes, rules, mentions, commands, skills and sub-tasks, over the real command."""

from pathlib import Path

from llm_server import LlmServer, Recorded, call, finish
from support.model_words import received, system
from support.terminal_session import Installed, at


def tools(request: Recorded) -> set[str]:
    return {tool["name"] for tool in request.body["tools"]}


def write(path: str, content: str = "x\n") -> object:
    return call("write_to_file", path=path, content=content)


def put(workspace: Path, **files: str) -> None:
    for name, text in files.items():
        path = workspace / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_mode_without_edits_neither_makes_nor_offers_them(rookery: Installed):
    with LlmServer([write("a.txt")], [finish()]) as server:
        done = rookery.run("-p", "-y", *at(server), "--mode", "ask", "write it")
    assert done.returncode == 0
    assert not (rookery.workspace / "a.txt").exists()
    assert "write_to_file" not in tools(server.requests[0])
    assert {"read_file", "new_task", "switch_mode"} <= tools(server.requests[0])
    assert "ask" in received(server.requests[1])


def test_a_trusted_project_adds_modes_rules_skills_and_commands(rookery: Installed):
    put(
        rookery.workspace,
        _dot_roomodes="customModes:\n- {slug: docs, name: Docs, roleDefinition: You write., "
        "groups: [read]}\n",
        AGENTS_dot_md="Use tabs.",
        _dot_rookery__rules__a_dot_md="Be brief.",
        _dot_rookery__commands__look_dot_md="---\ndescription: Look\n---\nLook at everything.",
        _dot_rookery__skills__pdf__SKILL_dot_md="---\nname: pdf\n"
        "description: Fill forms\n---\nHow.",
    )
    (rookery.workspace / ".roo" / "rules-docs").mkdir(parents=True)
    (rookery.workspace / ".roo" / "rules-docs" / "b.md").write_text("Cite sources.")
    with LlmServer([call("skill", skill="pdf")], [finish()]) as server:
        done = rookery.run("-p", *at(server), "--trust", "--mode", "docs", "/look here")
    assert done.returncode == 0, done.stderr
    first = server.requests[0]
    for rule in ("You write.", "Use tabs.", "Be brief.", "Cite sources.", "Fill forms"):
        assert rule in system(first)
    assert "Look at everything." in received(first)
    assert "Arguments: here" in received(first)
    assert "How." in received(server.requests[1])


def test_switching_the_mode_switches_model_and_tools(rookery: Installed):
    config = rookery.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.toml").write_text('[modes.ask]\nmodel = "claude-y"\n')
    with LlmServer(
        [call("switch_mode", mode_slug="ask", reason="to explain")], [finish()]
    ) as server:
        done = rookery.run("-p", "-y", *at(server), "go")
    assert done.returncode == 0
    assert [request.body["model"] for request in server.requests] == ["claude-x", "claude-y"]
    assert "execute_command" in tools(server.requests[0])
    assert "execute_command" not in tools(server.requests[1])


def test_an_unreadable_command_is_reported_once_and_refused(
    rookery: Installed,
):
    put(rookery.workspace, _dot_rookery__commands__look_dot_md="---\nno end")
    reason = "The command .rookery/commands/look.md is skipped: its front matter has no closing"
    with LlmServer([write("a.txt")], [finish()]) as server:
        done = rookery.run("-p", "-y", *at(server), "--trust", "/look here")
    assert f"/look is not available. {reason}" in received(server.requests[0])
    assert done.stderr.count(f"/look is not available. {reason}") == 1
    assert done.stderr.count(reason) == 2


def test_a_sub_task_works_in_its_mode_and_returns_its_result(rookery: Installed):
    part = call("new_task", mode="code", message="Write b.txt.")
    with LlmServer(
        [part], [write("b.txt")], [finish("b is there")], [finish("All done.")]
    ) as server:
        done = rookery.run("-p", "-y", *at(server), "--mode", "orchestrator", "do it")
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert (rookery.workspace / "b.txt").exists()
    assert "write_to_file" not in tools(server.requests[0])
    assert "write_to_file" in tools(server.requests[1])
    assert "Write b.txt." in received(server.requests[1])
    assert "do it" not in received(server.requests[1])
    assert "b is there" in received(server.requests[3])
    assert "▸ sub-task in code mode: Write b.txt." in done.stderr
    sessions = rookery.sessions()
    assert len(sessions) == 2


def test_a_limit_ends_a_noninteractive_run_that_can_be_continued(rookery: Installed):
    listing = [call("list_files", path=".", recursive=False)]
    with LlmServer(listing, listing, [finish("Done.")]) as server:
        first = rookery.run("-p", "-y", *at(server), "--max-turns", "2", "go")
        again = rookery.run("-p", "-y", *at(server), "-c")
    assert first.returncode == 4
    assert "limit of 2 requests (max_requests)" in first.stderr
    assert (again.returncode, again.stdout) == (0, "Done.\n")


def test_mcp_server_problems_are_reported_once(rookery: Installed):
    file = rookery.home / "config" / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"mcpServers": {"bad": {"command": ""}}}')
    with LlmServer([write("a.txt")], [finish("Fine.")]) as server:
        done = rookery.run("-p", "-y", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    assert done.stderr.count("The MCP server bad is not used: ") == 1
