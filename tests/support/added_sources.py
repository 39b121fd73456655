"""A copy of our sources with an example of docs/architecture.md added."""

import re
from pathlib import Path

import rookery as package

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def examples(part: str) -> list[str]:
    """The Python examples of the section about adding such a part."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## How to add a {part}\n")[2]
    return re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


def sources_with(part: str, folder: Path, *files: str, table: str = "") -> Path:
    """Our sources with the first examples as `files`, and with the next one as a row of the
    `table`, given as a file and the line that the table begins with."""
    ours, copy = Path(package.__file__).parent, folder / "rookery"
    whole = examples(part)
    _link(ours, copy, [*files, table.partition(": ")[0]])
    for file, text in zip(files, whole, strict=False):
        (copy / file).write_text(text, encoding="utf-8")
    if table:
        row, (home, line) = whole[len(files)], table.split(": ")
        text = (ours / home).read_text(encoding="utf-8")
        assert text.count(f"\n{line}\n") == 1
        added = text.replace(f"\n{line}\n", f"\n{line}\n{row}")
        (copy / home).write_text(added, encoding="utf-8")
    return folder


def _link(ours: Path, copy: Path, own: list[str]) -> None:
    """Fill a folder with links to ours, except for its `own` files and the bytecode folders."""
    copy.mkdir(parents=True)
    for each in ours.iterdir():
        below = [
            name.removeprefix(f"{each.name}/") for name in own if name.startswith(f"{each.name}/")
        ]
        if each.name == "__pycache__" or (below and each.is_dir()):
            _link(each, copy / each.name, below)
        elif each.name not in own:
            (copy / each.name).symlink_to(each)
