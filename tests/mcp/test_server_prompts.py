"""A prompt of a server is got through the gate: words leave, and a server may be started."""

import pytest

from rookery.core.asks import AskKind, Decision
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.mcp.offered_tools import AlwaysAllowed, ServerGuard, prompt_action
from support.mcp_workspace import Bench

from .test_approvals import prompting, was_started

pytestmark = pytest.mark.anyio
LINE = "/mcp:sky:weather Oslo"


async def test_a_prompt_starts_and_sends_nothing_before_it_is_permitted(bench: Bench):
    bench.configure(sky=prompting(bench.folder))
    async with bench.hub(start=20) as hub:
        action = prompt_action(hub, LINE)
        assert action.changes_things
        assert action.ask is AskKind.USE_MCP_SERVER
        assert action.notes == [f"sends: {LINE}"]
        mention = ToolCall(id="c1", name="mention")
        ruling = await ServerGuard(hub).before(mention, action)
        assert ruling.decision is Decision.NONE
        assert "prompting.py" in ruling.notes[0]
        assert (await AlwaysAllowed(hub).before(mention, action)).decision is Decision.NONE
        with pytest.raises(Denied):
            await action.perform(Permit("another"))
        assert not was_started(bench.folder)
        said = await action.perform(Permit(action.digest))
    assert said.text == "Is it raining in Oslo?"


async def test_a_prompt_of_an_untrusted_or_unknown_server_is_refused(bench: Bench):
    bench.configure(sky=prompting(bench.folder))
    async with bench.hub(may_act=False) as hub:
        with pytest.raises(ToolError, match="not trusted"):
            prompt_action(hub, LINE)
        with pytest.raises(BadArguments, match="No such MCP server: 'sea'"):
            prompt_action(hub, "/mcp:sea:weather Oslo")
