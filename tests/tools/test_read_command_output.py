from pathlib import Path

import pytest

from rookery.core.limits import KIB, Limits
from rookery.errors import BadArguments, ToolError
from rookery.tools.commands import ReadCommandOutput
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio

TOOL = ReadCommandOutput()


def bench_with(folder: Path, data: bytes) -> Bench:
    bench = Bench(folder, Limits())
    artifact = bench.context.artifacts.create()
    artifact.write(data)
    artifact.close()
    return bench


async def test_a_short_output_is_read_whole_with_line_numbers(tmp_path: Path):
    bench = bench_with(tmp_path, b"one\n\x1b[1mtwo\x1b[0m\n")
    outcome = await bench.call(TOOL, artifact_id="cmd-1.txt")
    assert outcome.text == ("cmd-1.txt: 16 bytes in all, here 0 to 16. COMPLETE.\n1 | one\n2 | two")


async def test_a_part_keeps_its_line_numbers_and_says_where_to_continue(tmp_path: Path):
    data = b"".join(b"line %d\n" % number for number in range(1, 20_001))
    bench = bench_with(tmp_path, data)
    offset = data.index(b"line 15000\n")
    outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", offset=offset, limit=11)
    assert outcome.text == (
        f"cmd-1.txt: {len(data)} bytes in all, here {offset} to {offset + 11}. "
        f"TRUNCATED, continue at offset {offset + 11}.\n15000 | line 15000"
    )


async def test_the_limit_is_bounded(tmp_path: Path):
    bench = bench_with(tmp_path, b"x" * (300 * KIB))
    for limit, read in ((None, 40 * KIB), (100, 100), (10**9, 256 * KIB)):
        outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", limit=limit)
        assert f"here 0 to {read}." in outcome.text


async def test_a_search_returns_numbered_lines(tmp_path: Path):
    bench = bench_with(tmp_path, b"ok\nAn Error\nok\nerror 2\n")
    outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", search="ERROR")
    assert outcome.text.splitlines()[1:] == ["2 | An Error", "4 | error 2"]


async def test_a_search_without_a_match_says_so(tmp_path: Path):
    bench = bench_with(tmp_path, b"ok\n")
    outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", search="error")
    assert outcome.text == "No line of cmd-1.txt matches error."


CUT = {
    27: ("3 lines that match é", ["1 | éé 1", "2 | éé 2", "3 | éé 3"]),
    20: ("the first 2 lines that match é", ["1 | éé 1", "2 | éé 2"]),
    10: ("the first line that matches é", ["1 | éé 1"]),
    3: ("the first line that matches é", ["1 | é"]),
}


async def test_a_search_that_is_cut_short_says_so_and_gives_at_least_one_line(tmp_path: Path):
    bench = bench_with(tmp_path, "éé 1\néé 2\néé 3\n".encode())
    for limit, (says, lines) in CUT.items():
        outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", search="é", limit=limit)
        assert outcome.text.splitlines() == [f"cmd-1.txt: {says}, at most {limit} bytes.", *lines]


@pytest.mark.parametrize("pattern", ["[open", "x{99999999999}"])
async def test_a_search_says_when_it_takes_a_faulty_expression_literally(
    tmp_path: Path, pattern: str
):
    bench = bench_with(tmp_path, b"an [open one\nan x{99999999999}\n")
    outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", search=pattern)
    header, found = outcome.text.splitlines()
    assert f"{pattern} (taken literally, because" in header
    assert pattern in found


async def test_an_expression_that_is_only_doubtful_is_not_taken_literally(tmp_path: Path):
    bench = bench_with(tmp_path, b"open\n")
    outcome = await bench.call(TOOL, artifact_id="cmd-1.txt", search="[[o]pen")
    assert outcome.text.startswith("cmd-1.txt: 1 line that matches [[o]pen, at most")


async def test_a_missing_output_is_an_error(tmp_path: Path):
    bench = bench_with(tmp_path, b"x")
    for artifact_id in ("", "cmd-x.txt", "../journal", "cmd-1.txt\n"):
        with pytest.raises(BadArguments):
            await bench.prepare(TOOL, artifact_id=artifact_id)
    for wrong in ({"artifact_id": "cmd-2.txt"}, {"offset": 99}, {"offset": -1}):
        with pytest.raises(ToolError):
            await bench.call(TOOL, **{"artifact_id": "cmd-1.txt"} | wrong)


async def test_reading_an_output_needs_no_approval(tmp_path: Path):
    action = await bench_with(tmp_path, b"x").prepare(TOOL, artifact_id="cmd-1.txt")
    assert not action.changes_things
    assert action.payload["tool"] == "readCommandOutput"
