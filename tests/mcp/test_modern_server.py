"""A server that speaks the newest protocol, which neither shakes hands nor notifies unasked."""

import sys
from pathlib import Path

import anyio
import pytest

from support.mcp_workspace import Bench

pytestmark = pytest.mark.anyio
MODERN = Path(__file__).parents[1] / "support/modern_mcp_server.py"


async def test_a_modern_server_is_called_and_list_changes_apply(bench: Bench):
    bench.configure(new={"command": sys.executable, "args": [str(MODERN)]})
    async with bench.hub(start=30) as hub:
        said = await bench.use(hub, server="new", tool="add", arguments={"a": 2, "b": 3})
        assert said.text == "5"
        assert [tool.name for tool in await hub.tools("new")] == ["add", "grow"]
        await bench.use(hub, server="new", tool="grow")
        with anyio.fail_after(10):
            while len(await hub.tools("new")) < 3:
                pass
        assert (await bench.use(hub, server="new", tool="another")).text == "new"
