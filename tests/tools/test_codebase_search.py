from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rookery.code_index.code_index import CodeIndex
from rookery.code_index.syntax import Outliner, SyntaxReader
from rookery.core.indexed_code import CodeHit, CodeHits
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Permit
from rookery.engine.ports.tool import Tool
from rookery.errors import BadArguments, Denied, ToolError
from rookery.tools.search import MOST_SHOWN, CodebaseSearch, ListCodeDefinitionNames
from rookery.workspace.source_files import WorkspaceSources
from support.workspace_folder import Workbench, permit_for

pytestmark = pytest.mark.anyio

PARSER = "def parse_headers(text):\n    return text\n"


class CodeBench(Workbench):
    """A workbench with an index and outlines."""

    def __init__(self, root: Path, cache: Path, parser: SyntaxReader) -> None:
        root.mkdir()
        super().__init__(root)
        sources = WorkspaceSources(self.files, Limits())
        self.index = CodeIndex(cache, sources, parser, patience=60)
        self.search = CodebaseSearch(self.index)
        self.names = ListCodeDefinitionNames(Outliner(sources, parser))

    async def action(self, tool: Tool[Any], **arguments: Any) -> Action:
        return await tool.prepare(msgspec.convert(arguments, tool.arguments), self._context())

    async def text(self, tool: Tool[Any], **arguments: Any) -> str:
        action = await self.action(tool, **arguments)
        return (await action.perform(permit_for(action))).text


@pytest.fixture(scope="module")
def parser() -> Iterator[SyntaxReader]:
    reader = SyntaxReader()
    yield reader
    reader.close()


@pytest.fixture
def bench(tmp_path: Path, parser: SyntaxReader) -> Iterator[CodeBench]:
    bench = CodeBench(tmp_path / "workspace", tmp_path / "cache", parser)
    bench.put("net/parser.py", PARSER)
    bench.put("net/mail.py", "class Mail:\n    def send(self):\n        pass\n")
    bench.put("README.md", "# About\n\nWords on headers.\n")
    yield bench
    bench.index.close()


async def test_code_is_searched_only_with_a_permit(bench: CodeBench):
    action = await bench.action(bench.search, query=" parse\n headers ", path="./net")
    assert (action.reads, action.changes_things) == (["net"], False)
    assert action.title == "Search the code in net for parse headers"
    assert action.payload == {
        "tool": "codebaseSearch",
        "query": "parse headers",
        "path": "net",
        "isOutsideWorkspace": False,
    }
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest))
    text = (await action.perform(permit_for(action))).text
    assert text == f"# net/parser.py:1-2 (score 1.00)\n{PARSER.rstrip()}"


async def test_all_of_the_workspace_is_searched_if_no_folder_is_named(bench: CodeBench):
    action = await bench.action(bench.search, query="headers")
    assert action.reads == ["."]
    assert "path" not in action.payload
    text = (await action.perform(permit_for(action))).text
    assert "# net/parser.py:1-2" in text
    assert "# README.md:1-3" in text


async def test_an_empty_query_is_refused(bench: CodeBench):
    for query in ("", "  \n", "x" * 3000):
        with pytest.raises(BadArguments):
            await bench.action(bench.search, query=query)


async def test_only_the_workspace_is_searched(bench: CodeBench):
    with pytest.raises(ToolError, match="outside the workspace"):
        await bench.action(bench.search, query="headers", path="..")


async def test_files_hidden_after_indexing_are_not_shown(bench: CodeBench):
    assert "net/parser.py" in await bench.text(bench.search, query="headers")
    bench.put(".rookeryignore", "net/parser.py\n")
    assert "net/parser.py" not in await bench.text(bench.search, query="headers")
    with pytest.raises(ToolError, match="hidden from you"):
        await bench.action(bench.search, query="headers", path="net/parser.py")


class StaleIndex:
    """An index that returns given results and respects what may be shown."""

    def __init__(self, *hits: CodeHit, notes: tuple[str, ...] = ()) -> None:
        self._found = CodeHits(hits=hits, notes=notes)

    async def search(
        self, query: str, path: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> CodeHits:
        hits = tuple(hit for hit in self._found.hits if may_show(hit.path))
        return CodeHits(hits=hits, notes=self._found.notes)


async def test_only_regular_files_of_the_workspace_are_shown(bench: CodeBench):
    bench.put(".rookeryignore", "secret.py\n.ssh\n")
    (bench.root / "link.py").symlink_to("secret.py")
    for path in ("secret.py", "link.py", "../outside.py", "/etc/passwd", "a\0b", ".ssh/config"):
        tool = CodebaseSearch(StaleIndex(CodeHit(path, 1, 1, "secret", 1.0)))
        assert "secret" not in (await bench.text(tool, query="x")).replace(repr("x"), ""), path


async def test_results_are_capped_and_notes_are_kept(bench: CodeBench):
    hits = [CodeHit("net/parser.py", n, n, "é" * 1000, 1.0) for n in range(50)]
    tool = CodebaseSearch(StaleIndex(*hits, notes=("(A note.)",)))
    text = await bench.text(tool, query="x")
    assert len(text.encode()) <= MOST_SHOWN + len("(A note.)")
    assert text.count("# net/parser.py") == 6
    assert text.endswith("\n\n(A note.)")


async def test_a_hit_is_shown_without_empty_lines_around_it_and_as_it_is_indented(
    bench: CodeBench,
):
    tool = CodebaseSearch(
        StaleIndex(CodeHit("net/mail.py", 4, 8, "\r\n    a\r\n\r\n  b\r\n\r\n", 0.5))
    )
    assert await bench.text(tool, query="x") == "# net/mail.py:4-8 (score 0.50)\n    a\n\n  b"


async def test_the_definitions_of_a_file_are_listed(bench: CodeBench):
    action = await bench.action(bench.names, path="net/mail.py")
    assert (action.reads, action.changes_things) == (["net/mail.py"], False)
    assert action.payload == {
        "tool": "listCodeDefinitionNames",
        "path": "net/mail.py",
        "isOutsideWorkspace": False,
    }
    with pytest.raises(Denied):
        await action.perform(Permit(action.digest))
    text = (await action.perform(permit_for(action))).text
    assert text == "# net/mail.py\n1--3 | class Mail:\n2--3 |   def send(self):"


async def test_the_definitions_of_a_folder_are_listed_file_by_file(bench: CodeBench):
    bench.put("net/deeper/other.py", PARSER)
    bench.put("net/data.bin", b"\0\1")
    (bench.root / "net/link.py").symlink_to("parser.py")
    assert await bench.text(bench.names, path="net") == (
        "# net/mail.py\n1--3 | class Mail:\n2--3 |   def send(self):\n\n"
        "# net/parser.py\n1--2 | def parse_headers(text):"
    )


async def test_definitions_of_hidden_files_are_not_listed(bench: CodeBench):
    bench.put(".rookeryignore", "parser.py\n")
    assert "parse_headers" not in await bench.text(bench.names, path="net")
    with pytest.raises(ToolError, match="hidden from you"):
        await bench.action(bench.names, path="net/parser.py")


async def test_a_file_outside_is_outlined_by_its_own_path(bench: CodeBench, tmp_path: Path):
    (tmp_path / "other.py").write_text(PARSER, encoding="utf-8")
    text = await bench.text(bench.names, path="../other.py")
    other = bench.files.locate("../other.py")
    assert text == f"# {other}\n1--2 | def parse_headers(text):"


async def test_a_file_without_definitions_is_reported(bench: CodeBench):
    bench.put("a.txt", b"words\n")
    (bench.root / "empty").mkdir()
    for path in ("a.txt", "empty"):
        reported = await bench.text(bench.names, path=path)
        assert reported.startswith(f"No definitions found in {path}.")
    bench.put("data.bin", b"\0\1")
    for path in ("missing.py", "data.bin"):
        with pytest.raises(ToolError):
            await bench.text(bench.names, path=path)


async def test_a_long_outline_is_cut(bench: CodeBench):
    for number in range(40):
        text = "".join(f"def function_{number}_{n}(): ...\n" for n in range(100))
        bench.put(f"many/m{number:02}.py", text)
    text = await bench.text(bench.names, path="many")
    assert len(text) <= 17_000
    assert text.count("# many/") == 40
    assert "more definitions.)" in text


async def test_a_missing_path_and_an_empty_result_have_different_messages(bench: CodeBench):
    for path in ("nte", "net/none.py", "README.md/x"):
        action = await bench.action(bench.search, query="headers", path=path)
        with pytest.raises(ToolError, match=f"No such path: {path}"):
            await action.perform(permit_for(action))
    bench.put("big.txt", "zebra\n" * 500_000)
    for path in ("net", "net/mail.py", "big.txt"):
        reported = await bench.text(bench.search, query="banana", path=path)
        wanted = "Nothing in the code fits 'banana'. Try other words, or search_files."
        assert reported == wanted, path
