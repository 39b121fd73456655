"""The list of command lines, each with the verdict it must get."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rookery.core.asks import Decision
from support.command_project import Bench, bench, decision
from support.each_row import each_row

VECTORS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "vectors" / "commands.yaml").read_text(encoding="utf-8")
)
DENIED = tuple(VECTORS["denied"])
GROUPS = [
    pytest.param(
        group["verdict"],
        group["lines"].rstrip("\n").split("\n"),
        id=f"{group['covers']}: {group['verdict']}",
    )
    for group in VECTORS["groups"]
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A project with all known programs on its PATH."""
    made = bench(tmp_path_factory.mktemp("project"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PATH", str(made.programs))
        yield made


@pytest.mark.anyio
@each_row(("verdict", "lines"), GROUPS)
async def test_every_line_gets_its_verdict(here: Bench, verdict: str, lines: list[str]):
    for line in lines:
        await demand(here, verdict, line)


async def demand(here: Bench, verdict: str, line: str) -> None:
    command = here.spelled(line)
    judged = here.judge(command, "")
    if verdict == "deny":
        assert await decision(judged, command, deny=DENIED) is Decision.DENY, line
        return
    ruled = await decision(judged, command)
    said = "dangerous" if judged.dangers else {Decision.ALLOW: "allow"}.get(ruled, "ask")
    assert said == verdict, (line, judged.dangers, judged.why_not, judged.notes, judged.commands)
    assert (judged.plain is not None) == (verdict == "allow"), line
    if verdict == "dangerous":
        assert ruled is Decision.ASK, line
        assert await decision(judged, command, allow=("*",)) is Decision.ASK, line
