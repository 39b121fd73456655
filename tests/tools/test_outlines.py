"""A file of which only the beginning fits is shown with what the rest defines."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.code_index.syntax import Outliner, SyntaxReader
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.tools.read_file import ReadFile
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.source_files import WorkspaceSources
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio

TOOL = ReadFile()

LINES = 40
TEXT = "".join(f"def number_{n}():\n    return {n}\n" for n in range(LINES))


async def shown(bench: Bench, syntax: SyntaxReader, **wish: object) -> str:
    (bench.root / "long.py").write_text(TEXT)
    files = bench.context.files
    assert isinstance(files, WorkspaceFiles)
    outline: Callable[..., object] = Outliner(WorkspaceSources(files, Limits()), syntax).outline
    bench.context = replace(bench.context, outline=outline)  # type: ignore[arg-type]
    action = await bench.prepare(TOOL, path="long.py", **wish)
    permit = Permit(digest=action.digest, reads=frozenset(action.reads))
    return (await action.perform(permit)).text


async def test_the_unread_rest_of_a_file_is_outlined(tmp_path: Path):
    syntax = SyntaxReader()
    try:
        text = await shown(Bench(tmp_path, Limits(read_lines=10)), syntax)
    finally:
        syntax.close()
    seen, _, rest = text.partition("(Defined in the rest, by lines:)")
    assert "return 4" in seen
    assert "number_5" not in seen
    assert "11--12 | def number_5():" in rest
    assert "number_4" not in rest
    assert len(rest) < len(TEXT) / 2


async def test_a_requested_part_is_shown_without_an_outline(tmp_path: Path):
    syntax = SyntaxReader()
    try:
        text = await shown(Bench(tmp_path, Limits()), syntax, offset=1, limit=4)
    finally:
        syntax.close()
    assert "number_1" in text
    assert "Defined in the rest" not in text
