"""A copy of our sources to which an example of docs/architecture.md is added."""

import re
import shutil
from pathlib import Path

import rookery as package

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def examples(part: str) -> list[str]:
    """The Python of the section that says how to add such a part."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## How to add a {part}\n")[2]
    return re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


def sources_with(part: str, folder: Path, file: str, table: str = "") -> Path:
    """Our sources with the example as `file`, and with its row in the `table`, a file and the line
    it begins with."""
    shutil.copytree(Path(package.__file__).parent, folder / "rookery")
    whole, *rows = examples(part)
    (folder / "rookery" / file).write_text(whole, encoding="utf-8")
    if rows:
        (row,), (home, line) = rows, table.split(": ")
        path = folder / "rookery" / home
        text = path.read_text(encoding="utf-8")
        assert text.count(f"\n{line}\n") == 1
        path.write_text(text.replace(f"\n{line}\n", f"\n{line}\n{row}"), encoding="utf-8")
    return folder
