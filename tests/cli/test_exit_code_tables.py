"""The page of exit codes lists every number that a command ends with."""

import re
from pathlib import Path

from rookery.cli.reports import Exit
from rookery.governance.cli.common import TraceExit
from support.each_row import each_row

PAGE = Path(__file__).parents[2] / "docs" / "exit-codes.md"


@each_row(("place", "codes"), [(0, Exit), (1, TraceExit)])
def test_every_exit_code_is_in_its_table(place: int, codes: type[Exit] | type[TraceExit]):
    tables = PAGE.read_text(encoding="utf-8").split("## `intents` and `trace`")
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", tables[place], re.M)}
    assert listed == set(map(int, codes))
