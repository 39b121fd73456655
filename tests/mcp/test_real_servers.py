"""The reference servers, over every transport."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.core.facts import Ending, OutputStreamed
from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments
from rookery.mcp.server import State
from support.mcp_workspace import Bench
from support.npm_servers import everything_over_http, npm_server

pytestmark = pytest.mark.anyio
START = 30.0


@pytest.fixture(params=["streamableHttp", "sse"])
def everything(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    with everything_over_http(request.param) as url:
        kind = "sse" if request.param == "sse" else "streamable-http"
        yield {"type": kind, "url": url}


async def test_tools_resources_prompts_progress_and_cancelling_work(
    bench: Bench, everything: dict[str, Any]
):
    bench.configure(all=everything)
    async with bench.hub(start=START) as hub:
        listed = await bench.use(hub, server="all")
        assert "echo\n" in listed.text

        said = await bench.use(hub, server="all", tool="echo", arguments={"message": "hi"})
        assert said.text == "Echo: hi"

        picture = await bench.use(hub, server="all", tool="get-tiny-image")
        assert [image.media_type for image in picture.images] == ["image/png"]

        weather = await bench.use(
            hub, server="all", tool="get_structured_content", arguments={"location": "Chicago"}
        )
        assert "temperature" in weather.text

        with pytest.raises(BadArguments, match="message is missing"):
            await bench.use(hub, server="all", tool="echo", arguments={})

        roots = await bench.use(hub, server="all", tool="get-roots-list")
        assert bench.workspace.as_uri() in roots.text

        resources = await bench.access(hub, server="all")
        uri = next(
            line.split()[1].rstrip(":") for line in resources.text.splitlines() if "://" in line
        )
        assert (await bench.access(hub, server="all", uri=uri)).text

        names = [each.name for each in await hub.prompts()]
        assert "mcp:all:simple-prompt" in names
        assert "simple prompt" in await hub.prompt_of("/mcp:all:simple-prompt")
        assert "Rome" in await hub.prompt_of("/mcp:all:args-prompt Rome")
        assert hub.health()[0].state is State.CONNECTED

        await bench.use(
            hub,
            server="all",
            tool="trigger-long-running-operation",
            arguments={"duration": 0.4, "steps": 2},
        )
        shown = [fact.text for fact in bench.facts if isinstance(fact, OutputStreamed)]
        assert "2/2\n" in shown

        long = await bench.prepare(
            hub,
            server="all",
            tool="trigger-long-running-operation",
            arguments={"duration": 600, "steps": 2},
        )
        with anyio.move_on_after(0.3) as scope:
            await long.perform(Permit(long.digest))
        assert scope.cancelled_caught
        said = await bench.use(hub, server="all", tool="echo", arguments={"message": "again"})
        assert said.text == "Echo: again"
    async with bench.hub() as hub:
        assert "mcp:all:simple-prompt" in [each.name for each in await hub.prompts()]
        assert hub.resolve("mcp__all__get_tiny_image") == ("all", "get-tiny-image")


async def test_the_filesystem_server_and_its_errors_work(bench: Bench):
    (bench.workspace / "a.txt").write_text("content", encoding="utf-8")
    bench.configure(
        files={"command": npm_server("mcp-server-filesystem"), "args": ["${workspaceFolder}"]}
    )
    async with bench.hub(start=START) as hub:
        path = str(bench.workspace / "a.txt")
        read = await bench.use(hub, server="files", tool="read_text_file", arguments={"path": path})
        assert read.text == "content"
        outside = await bench.use(
            hub, server="files", tool="read_text_file", arguments={"path": "/etc/passwd"}
        )
        assert outside.text.startswith("Error: Access denied")
        assert outside.ending is Ending.FAILED


MODERN = Path(__file__).parents[1] / "support/modern_mcp_server.py"


async def test_a_modern_server_is_called_and_list_changes_apply(bench: Bench):
    bench.configure(new={"command": sys.executable, "args": [str(MODERN)]})
    async with bench.hub(start=30) as hub:
        said = await bench.use(hub, server="new", tool="add", arguments={"a": 2, "b": 3})
        assert said.text == "5"
        assert [tool.name for tool in await hub.server("new").tools()] == ["add", "grow", "greet"]
        await bench.use(hub, server="new", tool="grow")
        with anyio.fail_after(60):
            while len(await hub.server("new").tools()) < 4:
                pass
        assert (await bench.use(hub, server="new", tool="another")).text == "new"
