"""The hub: nothing before it is needed, everything ended with it, and the user's word holds."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind, Decision
from rookery.core.blocks import ToolCall
from rookery.core.facts import Noted
from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.mcp.agreements import ConfigFiles
from rookery.mcp.catalogue import LARGEST_FILE, Catalogue, CatalogueCache, ToolOffer
from rookery.mcp.config import ServerDefinition
from rookery.mcp.hub import LONGEST_LINE, McpHub
from rookery.mcp.offered_tools import AccessMcpResource, AlwaysAllowed, mcp_tools, resolve_call
from rookery.mcp.server import State
from rookery.mcp.use_mcp_tool import UseMcpTool
from rookery.platform.user_folders import Places
from rookery.tools.registry import spec_of
from support.mcp_workspace import Bench, connect_all

pytestmark = pytest.mark.anyio
GREET = {"server": "one", "tool": "greet", "arguments": {"whom": "you"}}


def test_importing_the_hub_does_not_import_the_sdk():
    program = (
        "import sys, rookery.mcp.use_mcp_tool, rookery.mcp.offered_tools, rookery.mcp.hub\n"
        "print([each for each in ('mcp', 'mcp_types', 'httpx2') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_missing_sdk_is_reported(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    program = textwrap.dedent(
        f"""
        import anyio, sys
        from pathlib import Path
        from support.mcp_workspace import Bench, connect_all
        sys.modules["mcp"] = None

        async def main():
            async with Bench(Path({str(bench.folder)!r})).hub() as hub:
                await connect_all(hub)
                print(hub.health()[0].error)

        anyio.run(main)
        """
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout.startswith("The package mcp is missing")


@pytest.mark.parametrize("name", ["mcp.json", "work/.rookery/mcp.json", "work/.roo/mcp.json"])
def test_a_configuration_is_detected_without_reading_it(bench: Bench, name: str):
    places = Places(*[bench.user_file.parent] * 4)
    assert not places.any_mcp_servers(bench.workspace)
    bench.configure(bench.folder / name)
    assert places.any_mcp_servers(bench.workspace)


async def test_a_server_starts_on_first_use_and_only_once(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        UseMcpTool(hub)
        assert [each.state for each in hub.health()] == [State.IDLE]
        assert await hub.prompts() == []
        assert hub.resolve("mcp--one--greet") == ("one", "greet")
        assert bench.pids == []
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(hub.server("one").tools)
        assert [each.state for each in hub.health()] == [State.CONNECTED]
        assert len(bench.pids) == 1


async def test_the_tool_description_lists_tools_seen_in_earlier_runs(
    bench: Bench,
):
    bench.configure(one=bench.misbehaving("well"), two=bench.misbehaving("many tools"))
    async with bench.hub(start=20) as hub:
        before = UseMcpTool(hub).description
        assert before.endswith("- one\n- two")
        await connect_all(hub)
        assert UseMcpTool(hub).description == before
    async with bench.hub() as hub:
        after = spec_of(UseMcpTool(hub)).description
        *_, one, two = after.splitlines()
        assert one == "- one: greet"
        assert two.startswith("- two: greet0, greet1, ")
        assert len(two) <= LONGEST_LINE + 2
        assert [len(each.tools) for each in hub.health()] == [1, 200]
    assert len(bench.pids) == 2


async def test_a_call_with_only_a_server_lists_its_tools(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        action = await bench.prepare(hub, server="one")
        assert action.external == "mcp one"
        with pytest.raises(Denied, match="not permitted"):
            await action.perform(Permit("another"))
        assert bench.pids == []
        listed = await bench.use(hub, server="one")
        again = await bench.prepare(hub, server="one")
        assert again.is_read_only
        assert (await again.perform(Permit(again.digest))).text == listed.text
        assert "greet\nGreets.\narguments: {" in listed.text
        assert '"additionalProperties": false' in listed.text


WRONG = [
    ({"server": "none"}, "No such MCP server: 'none'. Available: one"),
    # while its tools are not known, a similar name is not what was permitted
    ({"server": "one", "tool": "GREET", "arguments": {"whom": "you"}}, "has no tool 'GREET'"),
    ({"server": "one", "tool": "wave"}, r"(?s)has no tool 'wave'.*greet\nGreets"),
    ({"server": "one", "tool": "greet"}, r"(?s)whom is missing.*greet\nGreets"),
    ({**GREET, "arguments": {"whom": 7}}, r"(?s)whom must be of type string.*greet\nGreets"),
]


async def test_a_wrong_call_is_explained_and_calls_nothing(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        for arguments, reported in WRONG:
            with pytest.raises(BadArguments, match=reported):
                await bench.use(hub, **arguments)
    assert "tools/call" not in bench.methods


async def test_the_action_names_the_call_and_requires_its_permit(
    bench: Bench,
):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        action = await bench.prepare(hub, **GREET)
        assert action.external == "mcp one greet"
        assert action.notes == ['arguments: {"whom": "you"}']
        assert action.payload == {
            "type": "use_mcp_tool",
            "serverName": "one",
            "toolName": "greet",
            "arguments": '{"whom": "you"}',
        }
        other = await bench.prepare(hub, server="one", tool="greet", arguments={"whom": "me"})
        assert other.digest != action.digest
        with pytest.raises(Denied, match="not permitted"):
            await action.perform(Permit("another"))
    assert "tools/call" not in bench.methods


async def ruling(bench: Bench, hub: McpHub) -> Decision:
    action = await bench.prepare(hub, **GREET)
    call = ToolCall(id="c1", name="use_mcp_tool")
    return (await AlwaysAllowed(hub).before(call, action)).decision


async def test_always_allow_works_for_user_servers_but_not_for_projects(
    bench: Bench,
):
    for allowed in (["greet"], ["*"], ["wave"]):
        bench.configure(one=bench.misbehaving("well", alwaysAllow=allowed))
        async with bench.hub() as hub:
            wanted = Decision.NONE if allowed == ["wave"] else Decision.ALLOW
            assert await ruling(bench, hub) is wanted, allowed
    bench.configure()
    file = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(file, one=bench.misbehaving("well", alwaysAllow=["*"]))
    async with bench.hub() as hub:
        assert await ruling(bench, hub) is Decision.NONE


async def test_a_tool_added_later_needs_approval(bench: Bench):
    bench.configure(one=bench.misbehaving("list changes", alwaysAllow=["*"]))
    async with bench.hub() as hub:
        await bench.use(hub, **GREET)
        assert [tool.name for tool in await hub.server("one").tools()] == ["greet", "bow"]
        assert hub.server("one").always_allows("greet")
        assert not hub.server("one").always_allows("bow")


async def test_a_disabled_tool_is_neither_listed_nor_called(bench: Bench):
    bench.configure(one=bench.misbehaving("well", disabledTools=["greet"], alwaysAllow=["*"]))
    async with bench.hub() as hub:
        with pytest.raises(BadArguments, match="switched off"):
            await bench.prepare(hub, **GREET)
        assert bench.pids == [], "nobody is asked about it"
        assert await hub.server("one").tools() == []
        with pytest.raises(BadArguments, match="has no tool 'greet', or it is switched off"):
            await bench.use(hub, **GREET)
        assert not hub.server("one").always_allows("greet")


async def test_a_disabled_server_is_not_started(bench: Bench):
    bench.configure(one=bench.misbehaving("well", disabled=True))
    async with bench.hub() as hub:
        assert UseMcpTool(hub).description.endswith("so far:")
        assert hub.health()[0].state is State.DISABLED
        with pytest.raises(ToolError, match="is disabled in the configuration"):
            await bench.use(hub, **GREET)
    assert bench.pids == []


async def test_project_servers_need_trust(bench: Bench):
    bench.configure(mine=bench.misbehaving("well"))
    project = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(project, one=bench.misbehaving("well"), mine={"disabled": True})
    async with bench.hub(trusted=False) as hub:
        states = {each.name: (each.source, each.state) for each in hub.health()}
        assert states == {"mine": ("user", State.IDLE), "one": ("project", State.UNTRUSTED)}
        with pytest.raises(ToolError, match="this folder is not trusted"):
            await bench.use(hub, **GREET)
        assert bench.pids == []
        await hub.server("mine").tools()
    async with bench.hub(trusted=True) as hub:
        await hub.server("one").tools()
        assert {each.name: each.state for each in hub.health()}["mine"] is State.DISABLED


async def test_no_server_starts_when_actions_are_not_allowed(bench: Bench):
    bench.configure(mine=bench.misbehaving("well"))
    async with bench.hub(trusted=False, may_act=False) as hub:
        assert hub.health()[0].state is State.UNTRUSTED
        with pytest.raises(ToolError, match="not trusted"):
            await hub.server("mine").tools()
    assert bench.pids == []


@pytest.mark.parametrize("name", [".rookery/mcp.json", ".roo/mcp.json"])
async def test_project_servers_added_during_a_run_are_not_started(bench: Bench, name: str):
    file = bench.workspace / name
    bench.configure(mine=bench.misbehaving("well"))
    async with bench.hub() as hub:
        bench.configure(file, evil=bench.misbehaving("well"), mine={"disabled": True})
        for _ in range(2):
            with pytest.raises(BadArguments, match=r"No such MCP server: 'evil'\. Available: mine"):
                await bench.use(hub, server="evil")
            with pytest.raises(BadArguments, match=r"No such MCP server: 'evil'\. Available: mine"):
                await bench.access(hub, server="evil")
        bench.configure(other=bench.misbehaving("well"), mine=bench.misbehaving("well"))
        await connect_all(hub)
        assert [each.name for each in hub.health()] == ["other", "mine"]
        assert {each.state for each in hub.health()} == {State.CONNECTED}
    assert [fact.text for fact in bench.facts if isinstance(fact, Noted)] == [
        f"{file} has changed; its servers are used after rookery is restarted."
    ]
    assert len(bench.pids) == 2
    async with bench.hub() as hub:
        await bench.use(hub, server="evil")


async def test_a_project_server_keeps_its_definition_during_a_run(bench: Bench):
    file = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(file, one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        before = hub.server("one")
        bench.configure(file, one=bench.misbehaving("dies at start"))
        bench.configure(mine=bench.misbehaving("well"))
        assert (await bench.use(hub, **GREET)).text == "Hello you"
        assert hub.server("one") is before
        file.unlink()
        assert (await bench.use(hub, **GREET)).text == "Hello you"


async def test_only_the_first_definition_read_is_trusted(bench: Bench):
    file = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(file, one={"command": "x", "args": ["a"]})
    bench.configure(mine={"command": "y"})
    for trusted in (True, False):
        files = ConfigFiles(bench.user_file, bench.workspace, environ={}, trusted=trusted)
        mine, one = files.read().servers
        assert files.trusts(mine)
        assert files.trusts(one) is trusted
        assert not files.trusts(replace(one, args=("b",)))
        assert not files.trusts(replace(one, name="two"))


async def test_the_file_of_other_agents_comes_last_and_can_be_left_out(bench: Bench):
    shared = bench.workspace / ".mcp.json"
    bench.configure(bench.workspace / ".roo" / "mcp.json", one={"command": "ours"})
    bench.configure(shared, one={"command": "theirs"}, two={"command": "x"})

    def read(**how: bool) -> dict[str, str]:
        files = ConfigFiles(bench.user_file, bench.workspace, environ={}, trusted=True, **how)
        return {each.name: each.command for each in files.read().servers}

    assert read() == {"one": "ours", "two": "x"}
    assert read(other_agents=False) == {"one": "ours"}


async def test_no_server_starts_before_it_is_permitted(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    for starts in (0, 1):
        async with bench.hub() as hub:
            for arguments in ({"server": "one"}, GREET):
                action = await bench.prepare(hub, **arguments)
                assert action.changes_things
                assert action.ask is AskKind.USE_MCP_SERVER
                assert len(bench.pids) == starts
            await action.perform(Permit(action.digest))


async def test_listing_resources_of_a_stopped_server_needs_a_permit(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        tool = AccessMcpResource(hub)
        arguments = tool.arguments(server="one")
        action = await tool.prepare(arguments, bench.context())
        assert action.title == "Start the MCP server one and list its resources"
        assert action.external == "mcp one"
        with pytest.raises(Denied):
            await action.perform(Permit("another"))
        assert bench.pids == []
        await action.perform(Permit(action.digest))
        assert (await tool.prepare(arguments, bench.context())).is_read_only


async def test_a_server_that_was_disabled_before_the_answer_is_not_started(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        tool = AccessMcpResource(hub)
        action = await tool.prepare(tool.arguments(server="one"), bench.context())
        bench.configure(one=bench.misbehaving("well", disabled=True))
        with pytest.raises(ToolError, match="disabled in the configuration"):
            await action.perform(Permit(action.digest, by_hand=True))
    assert bench.pids == []


async def test_listing_tools_does_not_restart_a_lost_server(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        await connect_all(hub)
        action = await bench.prepare(hub, server="one")
        hub.retire()
        with pytest.raises(ToolError, match=r"was lost\. Call again"):
            await action.perform(Permit(action.digest))
    assert len(bench.pids) == 1


async def test_cached_schemas_reject_wrong_arguments_without_a_start(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        await connect_all(hub)
    async with bench.hub() as hub:
        with pytest.raises(BadArguments, match=r"(?s)whom is missing.*greet\nGreets"):
            await bench.prepare(hub, server="one", tool="greet")
    assert len(bench.pids) == 1


async def test_a_server_with_all_tools_allowed_may_start(bench: Bench):
    every, some = (bench.misbehaving("well", alwaysAllow=[each]) for each in ("*", "greet"))
    bench.configure(every=every, some=some)
    bench.configure(bench.workspace / ".rookery" / "mcp.json", theirs=every)
    decisions = {"every": Decision.ALLOW, "some": Decision.NONE, "theirs": Decision.NONE}
    async with bench.hub() as hub:
        for server, expected in decisions.items():
            action = await bench.prepare(hub, server=server)
            call = ToolCall(id="c1", name="use_mcp_tool")
            assert (await AlwaysAllowed(hub).before(call, action)).decision is expected


async def test_changes_to_the_user_configuration_apply_at_once(bench: Bench):
    bench.configure(one=bench.misbehaving("well"), kept=bench.misbehaving("well", timeout=9))
    async with bench.hub() as hub:
        await connect_all(hub)
        first = bench.pids
        bench.configure(
            one=bench.misbehaving("reports progress"), kept=bench.misbehaving("well", timeout=9)
        )
        await bench.use(hub, **GREET)
        await hub.server("kept").tools()
        assert len(bench.pids) == len(first) + 1
        bench.configure()
        with pytest.raises(BadArguments, match="Available: none"):
            await bench.use(hub, **GREET)
        bench.user_file.write_text("{", encoding="utf-8")
        assert hub.health() == []
        assert [problem.server for problem in hub.problems] == [""]


async def test_configuration_problems_are_reported_once(bench: Bench):
    bench.configure(one=bench.misbehaving("well"), bad={"command": "x", "url": "http://h/"})
    async with bench.hub() as hub:
        for _ in range(2):
            await bench.use(hub, **GREET)
        [reported] = [fact.text for fact in bench.facts if isinstance(fact, Noted)]
        assert reported.startswith("The MCP server bad is not used: it has fields of a program and")
        assert hub.news() == []
        bench.user_file.write_text("{", encoding="utf-8")
        [reported] = hub.news()
        assert reported.startswith(f"{bench.user_file}: ")
        assert hub.news() == []


async def test_a_server_gets_a_minimal_environment(bench: Bench):
    (bench.workspace / "sub").mkdir()
    bench.configure(
        one=bench.misbehaving("shows its environment", env={"GIVEN": "${env:NAMED}"}, cwd="sub")
    )
    environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-secret", "NAMED": "value", "LD_X": "x"}
    async with bench.hub(environ=environ) as hub:
        said = await bench.use(hub, **GREET)
    given = json.loads(said.text)
    assert given.pop("GIVEN") == "value"
    assert set(given) <= {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "LC_CTYPE"}


NOT_THERE: list[tuple[dict[str, object], str]] = [
    ({"command": "no-such-program-here"}, "No such program: no-such-program-here"),
    ({"command": "./mine"}, "No such program: ./mine"),
    ({"command": "sh", "cwd": "nowhere"}, "No such folder to start it in"),
]


async def test_a_missing_program_is_named(bench: Bench):
    bench.configure(**{f"n{number}": said for number, (said, _) in enumerate(NOT_THERE)})
    async with bench.hub() as hub:
        for number, (_, reported) in enumerate(NOT_THERE):
            with pytest.raises(ToolError, match=reported):
                await hub.server(f"n{number}").tools()


async def test_a_damaged_catalogue_cache_is_replaced(bench: Bench):
    bench.configure(one=bench.misbehaving("well"))
    memory = bench.folder / "cache" / "mcp.json"
    memory.parent.mkdir()
    memory.write_bytes(b'{"x": 1')
    async with bench.hub() as hub:
        await hub.server("one").tools()
    assert memory.stat().st_mode & 0o777 == 0o600
    assert json.loads(memory.read_bytes())


async def test_the_catalogue_cache_is_bounded(bench: Bench, tmp_path: Path):
    memory = CatalogueCache(tmp_path / "memory.json")
    tools = tuple(ToolOffer(name=f"t{each}", description="d" * 4096) for each in range(200))
    servers = [ServerDefinition(name="s", command=f"c{each}") for each in range(8)]
    for server in servers:
        memory.learn(server, Catalogue(tools=tools))
    assert (tmp_path / "memory.json").stat().st_size < LARGEST_FILE
    again = CatalogueCache(tmp_path / "memory.json")
    known = [again.of(server) is not None for server in servers]
    assert known == [False] * (8 - sum(known)) + [True] * sum(known)
    assert sum(known) >= 4


async def test_the_model_has_two_mcp_tools_or_none(bench: Bench):
    bench.configure()
    async with bench.hub() as hub:
        assert mcp_tools(hub) == {}
    bench.configure(one=bench.misbehaving("well"))
    async with bench.hub() as hub:
        assert list(mcp_tools(hub)) == ["use_mcp_tool", "access_mcp_resource"]
        called = ToolCall(id="c1", name="mcp__one__greet", arguments={"whom": "you"})
        meant = resolve_call(called, hub)
        assert (meant.id, meant.name, meant.arguments) == ("c1", "use_mcp_tool", GREET)
        other = ToolCall(id="c2", name="read_file", arguments={"path": "x"})
        assert resolve_call(other, hub) == other


async def test_an_exception_inside_the_hub_context_is_not_wrapped(bench: Bench):
    with pytest.raises(ToolError, match="of mine"):
        async with bench.hub():
            raise ToolError("of mine")


async def test_a_call_by_the_tool_name_is_understood(bench: Bench):
    bench.configure(**{"two parts": bench.misbehaving("well")})
    names = ("mcp--two-parts--greet", "mcp__two_parts__greet")
    async with bench.hub() as hub:
        assert [hub.resolve(name) for name in names] == [("two parts", "greet")] * 2
        await hub.server("two parts").tools()
        assert [hub.resolve(name) for name in names] == [("two parts", "greet")] * 2
        assert hub.resolve("mcp--other--greet") is None
        assert hub.resolve("read_file") is None
