"""Parts of a page's text: a paragraph with links and code, a table, a block of code."""

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urljoin

_SPACES = re.compile(r" {2,}")
_AROUND_BREAK = re.compile(r" *\n[ \n]*")
_FENCES = re.compile(r"`{3,}")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|highlight|brush:)-?([\w+#.-]+)")
_PERMALINKS = frozenset("¶#§🔗")
_LONGEST_LINK = 500
_MOST_COLUMNS = 50
_WIDEST_CELL = 600
"""Characters of a cell. Tables with longer ones are taken for layout."""


class Inline:
    """The text of one paragraph while it is collected."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pieces: list[str] = []
        self._link: tuple[int, str] | None = None
        self._code: int | None = None

    def rebase(self, url: str) -> None:
        self._url = _absolute(self._url, url) or self._url

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def new_line(self) -> None:
        self._pieces.append("\n")

    def image(self, attributes: Mapping[str, str]) -> None:
        if alt := " ".join(attributes.get("alt", "").split()):
            self._pieces.append(f"[image: {alt}]")

    def open_link(self, target: str) -> None:
        self.close_link()
        self._link = (len(self._pieces), _absolute(self._url, target))

    def close_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._replace(link[0], lambda text: _link(text, link[1]))

    def open_code(self) -> None:
        if self._code is None:
            self._code = len(self._pieces)

    def close_code(self) -> None:
        start, self._code = self._code, None
        if start is not None:
            self._replace(start, lambda text: f"`{text}`")

    def take(self) -> str:
        """The paragraph. A link that is still open covers the next one too."""
        if not self._pieces:
            return ""
        link = self._link
        self.close_code()
        self.close_link()
        text = _SPACES.sub(" ", "".join(self._pieces))
        self._pieces.clear()
        self._link = (0, link[1]) if link else None
        return _AROUND_BREAK.sub("\n", text).strip()

    def _replace(self, start: int, change: Callable[[str], str]) -> None:
        """Change what was collected since `start`; spaces around it stay outside."""
        whole = "".join(self._pieces[start:])
        text = whole.strip()
        if not text:
            return
        before, after = whole[: whole.index(text)], whole[whole.index(text) + len(text) :]
        self._pieces[start:] = [before, change(text), after]


def _link(text: str, url: str) -> str:
    if text in _PERMALINKS:
        return ""
    flat = " ".join(text.split())
    return f"[{flat}]({url})" if url and url != flat else flat


def _absolute(base: str, target: str) -> str:
    """The address of a link; empty if it leads nowhere else."""
    if not target or target.startswith("#"):
        return ""
    try:
        url = urljoin(base, target.strip())
    except ValueError:
        return ""
    usable = url.startswith(("http://", "https://")) and len(url) <= _LONGEST_LINK
    return url.replace(" ", "%20").replace(")", "%29") if usable else ""


class PageTable:
    def __init__(self) -> None:
        self._rows: list[list[list[str]]] = []

    @property
    def in_cell(self) -> bool:
        return bool(self._rows and self._rows[-1])

    def new_row(self) -> None:
        self._rows.append([])

    def new_cell(self) -> None:
        if not self._rows:
            self.new_row()
        if len(self._rows[-1]) < _MOST_COLUMNS:
            self._rows[-1].append([])

    def add(self, text: str) -> None:
        self._rows[-1][-1].append(text)

    def blocks(self) -> Iterator[str]:
        """One block with rows; or each cell as its own blocks if the table is only layout."""
        rows = [row for row in self._rows if any(row)]
        if any(map(_is_layout, rows)) or max(map(len, rows), default=0) < 2:
            yield from (text for row in rows for cell in row for text in cell)
            return
        width = max(map(len, rows))
        first, *rest = (_line(row, width) for row in rows)
        yield "\n".join([first, "|" + " --- |" * width, *rest])


def _is_layout(row: list[list[str]]) -> bool:
    return any("```" in text or len(text) > _WIDEST_CELL for cell in row for text in cell)


def _line(row: list[list[str]], width: int) -> str:
    cells = [*map(_cell, row), *([""] * (width - len(row)))]
    return "".join(["|", *(f" {cell} |" for cell in cells)])


def _cell(texts: list[str]) -> str:
    return " ".join(" ".join(texts).split()).replace("|", "\\|")


def fenced(code: str, language: str) -> str:
    text = code.strip("\n").rstrip()
    if not text:
        return ""
    longest = max(map(len, _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def language_in(classes: str) -> str:
    """The language of a block of code, by the classes that highlighters use."""
    found = _LANGUAGE.search(classes[:300])
    name = found[1].lower() if found else ""
    return "" if name in ("default", "none", "text", "wrapper") else name
