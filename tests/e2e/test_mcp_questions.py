"""Questions of MCP servers on a terminal, and in runs that are not interactive."""

import json
import sys
from pathlib import Path

from support.terminal_session import Installed

ASKING = Path(__file__).parents[1] / "support" / "asking_mcp_server.py"
SCRIPT = """
go:
- calls: [{tool: use_mcp_tool, arguments: {server: asking, tool: TOOL, arguments: {}}}]
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
again:
- {say: Sampled., usage: {tokens_in: 5, tokens_out: 2, cost: 0.25}}
"""


def prepare(rookery: Installed, tool: str, **more: str) -> list[str]:
    """Configure the server, and return the flags of a model that calls the tool."""
    config = rookery.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    arguments = ["-S", "-E", str(ASKING), str(rookery.home)]
    server = {"command": sys.executable, "args": arguments, "alwaysAllow": ["*"], **more}
    (config / "mcp.json").write_text(json.dumps({"mcpServers": {"asking": server}}))
    return rookery.script(SCRIPT.replace("TOOL", tool))


def test_a_form_is_filled_in_at_a_terminal_also_with_auto_approve(rookery: Installed):
    words = [*prepare(rookery, "often"), "-y", "--followup-timeout", "0", "go"]
    with rookery.terminal(*words) as terminal:
        terminal.wait_for("The MCP server asking asks: Who?")
        terminal.wait_for("name (text)")
        terminal.wait_for("1. Do not answer this server")
        terminal.wait_for("> ")
        terminal.type("Ada")
        terminal.wait_for("1. Do not answer this server")
        terminal.wait_for("> ")
        terminal.type("1")
        terminal.wait_for("Done.")
    assert "Answered automatically" not in terminal.screen


def test_a_run_that_is_not_interactive_declines(rookery: Installed):
    script = prepare(rookery, "often")
    done = rookery.run("-p", "-y", "--trust", "--output-format", "stream-json", *script, "go")
    assert done.returncode == 0, done.stderr
    assert '{\\"decline\\": 1000}' in done.stdout


def test_the_model_is_used_only_after_the_user_has_seen_the_request(rookery: Installed):
    script = prepare(rookery, "sample_often")
    with rookery.terminal(*script, "-y", "go") as terminal:
        terminal.wait_for("Let the MCP server asking use your model?")
        terminal.wait_for("user: again")
        terminal.wait_for("[y/n/a] ")
        terminal.type("a")
        terminal.wait_for("Always allow every request of the MCP server 'asking'")
        terminal.wait_for("[y/n")
        terminal.type("y")
        terminal.wait_for("used the model: 5 tokens sent, 2 received.")
        terminal.wait_for("Done.")


def test_its_cost_counts_where_the_users_file_allows_it_without_asking(rookery: Installed):
    script = prepare(rookery, "sample_often", sampling="always")
    done = rookery.run("-p", "-y", "--trust", "--output-format", "json", *script, "go")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cost"]["totalCost"] == 2.5
