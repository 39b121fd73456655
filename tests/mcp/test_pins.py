"""A tool that has changed needs approval again, however its server hides the change."""

from pathlib import Path

import pytest

from rookery.core.asks import Decision, strictest
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action
from rookery.errors import ToolError
from rookery.mcp.agreements import Pins
from rookery.mcp.catalogue import Catalogue, CatalogueCache, ToolOffer
from rookery.mcp.config import ServerDefinition
from rookery.mcp.hub import McpHub
from rookery.mcp.offered_tools import CHANGED, AlwaysAllowed, ServerGuard
from support.mcp_workspace import Bench

pytestmark = pytest.mark.anyio
GREET = {"server": "one", "tool": "greet", "arguments": {"whom": "you"}}
WAY = "tool changes between runs"


async def decided(hub: McpHub, action: Action) -> Decision:
    hooks = [AlwaysAllowed(hub), ServerGuard(hub)]
    received = ToolCall(id="c1", name="use_mcp_tool")
    return strictest([await hook.before(received, action) for hook in hooks]).decision


async def seen(bench: Bench) -> None:
    """A run that calls the tool as it is allowed."""
    async with bench.hub(start=20) as hub:
        action = await bench.prepare(hub, **GREET)
        assert await decided(hub, action) is Decision.ALLOW
        await bench.use(hub, **GREET)


async def met_changed(bench: Bench, hub: McpHub) -> Action:
    """Prepare the call again, after the first try has shown the tool's new definition."""
    with pytest.raises(ToolError, match=r"was not called\. Call it again"):
        await bench.use(hub, **GREET)
    action = await bench.prepare(hub, **GREET)
    assert CHANGED in action.notes
    return action


@pytest.mark.parametrize("trick", ["none", "a catalogue too large to remember", "no memory"])
async def test_a_changed_tool_is_noticed_in_the_next_run(bench: Bench, trick: str):
    bench.configure(one=bench.misbehaving(WAY, alwaysAllow=["*"]))
    await seen(bench)
    if trick == "a catalogue too large to remember":
        (bench.folder / "large").touch()
        await seen(bench)
        (bench.folder / "large").unlink()
    if trick == "no memory":
        (bench.folder / "cache" / "mcp.json").unlink()
    (bench.folder / "changed").touch()
    async with bench.hub(start=20) as hub:
        action = await met_changed(bench, hub)
        assert await decided(hub, action) is Decision.ASK
    assert bench.methods.count("tools/call") == (2 if "large" in trick else 1)


async def test_allowing_a_changed_tool_applies_to_later_runs(bench: Bench):
    bench.configure(one=bench.misbehaving(WAY, alwaysAllow=["*"]))
    await seen(bench)
    (bench.folder / "changed").touch()
    async with bench.hub(start=20) as hub:
        await met_changed(bench, hub)
        await bench.use(hub, **GREET)
    await seen(bench)


def offer(description: str) -> ToolOffer:
    return ToolOffer(name="greet", description=description)


def test_pins_of_many_servers_survive_a_restart(tmp_path: Path):
    pins = Pins(tmp_path / "pins.json")
    servers = [ServerDefinition(name="s", command=f"c{each}") for each in range(300)]
    for server in servers:
        pins.see(server, [offer("as it was")])
        pins.see(server, [offer("as it is")])
    again = Pins(tmp_path / "pins.json")
    assert all(again.changed(server, offer("as it is")) for server in servers)
    assert not any(again.changed(server, offer("as it was")) for server in servers)
    assert (tmp_path / "pins.json").stat().st_mode & 0o777 == 0o600


def test_an_unreadable_pins_file_is_an_error(tmp_path: Path):
    file = tmp_path / "pins.json"
    file.write_text('{"x": 1')
    with pytest.raises(ToolError, match=r"pins\.json.*it is damaged.*remove it to start over"):
        Pins(file).changed(ServerDefinition(name="s", command="c"), offer(""))


async def test_a_damaged_pins_file_stops_every_call(bench: Bench):
    bench.configure(one=bench.misbehaving("well", alwaysAllow=["*"]))
    (bench.folder / "mcp-pins.json").write_text("[")
    async with bench.hub(start=20) as hub:
        with pytest.raises(ToolError, match="it is damaged"):
            await bench.use(hub, **GREET)
    assert "tools/call" not in bench.methods


def test_an_oversized_catalogue_does_not_evict_the_others(tmp_path: Path):
    memory = CatalogueCache(tmp_path / "memory.json")
    small = ServerDefinition(name="small", command="small")
    memory.learn(small, Catalogue(tools=(offer("small"),)))
    tools = tuple(ToolOffer(name=f"t{each}", schema={"d": "x" * 50_000}) for each in range(100))
    memory.learn(ServerDefinition(name="large", command="large"), Catalogue(tools=tools))
    assert CatalogueCache(tmp_path / "memory.json").of(small)
