"""Every editing tool on every kind of file: bytes outside the edit never change.

A file is a list of lines with their ends, and an edit replaces some lines. The expected result is
computed from these alone, without product code.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from rookery.errors import BadArguments, ToolError
from support.workspace_folder import Workbench

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))

pytestmark = pytest.mark.anyio

TOOLS = ("write_to_file", "apply_diff", "edit", "search_replace", "edit_file", "apply_patch")
LITERAL = ("edit", "search_replace", "edit_file")
"""The tools that are given a piece of text rather than lines."""
MARKS = ("<<<<<<<", "=======", ">>>>>>>")
LONG = 20_000 if TORTURE else 5_000
"""Lines of a long file."""


class File(Struct, frozen=True):
    name: str
    lines: tuple[tuple[str, str], ...]
    codec: str = "utf-8"
    mark: bytes = b""
    mode: int = 0o644
    linked: str = ""
    kinds: tuple[str, ...] = ()
    is_text: bool = True

    def encoded(self, text: str) -> bytes:
        return text.encode(self.codec, "surrogateescape")

    @property
    def data(self) -> bytes:
        return self.mark + self.bytes_of(0, len(self.lines))

    @property
    def texts(self) -> list[str]:
        return [text for text, _ in self.lines]

    @property
    def ends(self) -> set[str]:
        return {end for _, end in self.lines if end} or {"\n"}

    def bytes_of(self, first: int, last: int) -> bytes:
        return self.encoded("".join(text + end for text, end in self.lines[first:last]))


def rows(count: int, *ends: str, line: str = "L{0:05} is the same as {0}", last: str | None = None):
    """Lines that are all different, whose ends take turns."""
    made = [(line.format(number), ends[number % len(ends)]) for number in range(count)]
    return (*made[:-1], (made[-1][0], made[-1][1] if last is None else last))


def lines(*texts: str, end: str = "\n") -> tuple[tuple[str, str], ...]:
    return tuple((text, end) for text in texts)


SOME = ("middle", "several", "missing")
PLAIN = File("plain", rows(7, "\n"))
FILES = (
    PLAIN,
    File("UTF-8 mark", rows(7, "\n"), mark=b"\xef\xbb\xbf"),
    File("UTF-8 mark and CRLF", rows(7, "\r\n"), mark=b"\xef\xbb\xbf"),
    File("CRLF", rows(7, "\r\n")),
    File("CRLF, no final newline", rows(7, "\r\n", last="")),
    File("mixed ends", rows(8, "\r\n", "\n", "\n")),
    File("mixed ends, mostly CRLF, no final newline", rows(9, "\r\n", "\r\n", "\n", last="")),
    File("CR only", rows(7, "\r")),
    File("CR only, no final newline", rows(7, "\r", last="")),
    File("stray carriage returns", rows(7, "\n", line="L{0:05} same\r\r as {0}")),
    File("tabs", rows(7, "\n", line="\t\tL{0:05}\tsame \t{0}")),
    File("UTF-16 LE", rows(7, "\n", line="L{0:05} sameä€𝄞"), codec="utf-16-le", mark=b"\xff\xfe"),
    File("UTF-16 BE, CRLF", rows(7, "\r\n", line="L{0:05} sameä€"), codec="utf-16-be",
         mark=b"\xfe\xff"),
    File("UTF-16 without a mark", rows(7, "\n"), codec="utf-16-le", is_text=False, kinds=SOME),
    File("binary", rows(7, "\n", line="L{0:05} same\0 {0}"), is_text=False, kinds=SOME),
    File("UTF-32", rows(7, "\n"), codec="utf-32-le", mark=b"\xff\xfe\0\0"),
    File("Latin-1", rows(7, "\n", line="L{0:05} same {0}") + lines("caf\udce9", "na\udcefve \udcff")
         + rows(9, "\n")[7:]),
    File("no final newline", rows(7, "\n", last="")),
    File("executable", rows(7, "\n"), mode=0o755, kinds=SOME),
    File("private", rows(7, "\n"), mode=0o600, kinds=SOME),
    File("by a symbolic link", rows(7, "\n"), mode=0o640, linked="symbolic", kinds=SOME),
    File("by a linked folder", rows(7, "\r\n"), linked="folder", kinds=SOME),
    File("hard-linked", rows(7, "\n"), linked="hard", kinds=SOME),
    File("empty", (), kinds=("insert", "missing")),
    File("one line", rows(1, "\n"), kinds=("first", "same", "missing")),
    File("one line without an end", rows(1, "\n", last=""), kinds=("first", "same", "missing")),
    File("trailing whitespace", rows(7, "\n", line="L{0:05} same {0} \t ")),
    File("typographic", rows(7, "\n", line="L{0:05}\u00a0“same” – it’s {0}…")),
    File("long lines", rows(7, "\n", line="L{0:05} same " + "x" * 20_000 + " {0}")),
    File("odd separators", rows(7, "\n", line="L{0:05}\fsame\v\u2028a\u0085b\x1c {0}")),
    File("only newlines", lines(*[""] * 7), kinds=("first", "missing")),
    File("blank lines between", rows(2, "\n") + lines("", "") + rows(9, "\n")[2:]),
    File("conflict markers", lines("<<<<<<< HEAD", "L1 same", "=======", "L2 same", ">>>>>>> x")),
    File("patch markers",
         lines("*** Begin Patch", "@@ L1 same", "*** End Patch", "+L2 same", "-x")),
    File("many lines", rows(LONG, "\n"), kinds=("middle", "missing")),
    File("a line of 5 MB", lines("xy " * 850_000 + "L1 same" + " yx" * 850_000), kinds=("same",)),
)  # fmt: skip


class Edit(Struct, frozen=True):
    """From the line `first` up to `last`, other lines come."""

    first: int
    last: int
    new: tuple[str, ...]


def edits(kind: str, count: int) -> list[Edit]:
    middle = count // 2
    match kind:
        case "first":
            return [Edit(0, 1, ("new $1 \\1 first",))]
        case "middle":
            return [Edit(middle, middle + 1, ("new $& one", "", "\tnew two  "))]
        case "last":
            return [Edit(count - 1, count, ("new last", "new very last"))]
        case "delete":
            return [Edit(middle, middle + 1, ())]
        case "insert":
            return [Edit(middle, middle, ("new between",))]
        case "several":
            return [Edit(0, 1, ("new top",)), Edit(count - 1, count, ("new bottom",))]
    raise AssertionError(kind)


KINDS = ("first", "middle", "last", "delete", "insert", "several", "same", "missing")


# ── the arguments of each tool ──────────────────────────────────────────────────────────


def calls(tool: str, kind: str, file: File) -> Iterator[dict[str, object]]:
    """The arguments of the calls that make the edit, without the path."""
    if kind == "missing":
        yield MISSING[tool]
    elif kind == "same":
        yield {"old_string": "same", "new_string": "SAME", **REPEATED[tool](file)}
    elif tool in LITERAL:
        yield from (_as_pieces(file, edit) for edit in edits(kind, len(file.lines)))
    else:
        yield TELLING[tool](file, edits(kind, len(file.lines)))


def _as_pieces(file: File, edit: Edit) -> dict[str, object]:
    old, new = file.texts[edit.first : edit.last], list(edit.new)
    if not old or not new:
        beside = file.texts[edit.last : edit.last + 1]
        old, new = [*old, *beside], [*new, *beside]
    return {"old_string": "\n".join(old), "new_string": "\n".join(new)}


def _as_blocks(file: File, all_edits: Sequence[Edit]) -> dict[str, object]:
    def escaped(texts: Sequence[str]) -> list[str]:
        return [f"\\{text}" if text.startswith(MARKS) else text for text in texts]

    blocks: list[str] = []
    for edit in all_edits:
        old, new = file.texts[edit.first : edit.last], [*edit.new]
        if not old:
            beside = file.texts[edit.last : edit.last + 1]
            old, new = beside, [*new, *beside]
        blocks += ["<<<<<<< SEARCH", *escaped(old), "=======", *escaped(new), ">>>>>>> REPLACE"]
    return {"diff": "\n".join(blocks)}


def _as_patch(file: File, all_edits: Sequence[Edit]) -> dict[str, object]:
    said = ["*** Begin Patch", "*** Update File: {path}"]
    for edit in all_edits:
        said.append("@@")
        said += [f" {text}" for text in file.texts[max(0, edit.first - 1) : edit.first]]
        said += [f"-{text}" for text in file.texts[edit.first : edit.last]]
        said += [f"+{text}" for text in edit.new]
        said += [f" {text}" for text in file.texts[edit.last : edit.last + 1]]
    return {"patch": "\n".join([*said, "*** End Patch"])}


def _as_whole(file: File, all_edits: Sequence[Edit]) -> dict[str, object]:
    texts = file.texts
    for edit in reversed(all_edits):
        texts[edit.first : edit.last] = edit.new
    final = "\n" if not file.lines or file.lines[-1][1] else ""
    return {"content": "\n".join(texts) + final}


TELLING: dict[str, Callable[[File, Sequence[Edit]], dict[str, object]]] = {
    "write_to_file": _as_whole,
    "apply_diff": _as_blocks,
    "apply_patch": _as_patch,
}
REPEATED: dict[str, Callable[[File], dict[str, object]]] = {
    "edit": lambda file: {"replace_all": True},
    "edit_file": lambda file: {"expected_replacements": max(1, "".join(file.texts).count("same"))},
}
_NOWHERE = {"old_string": "nowhere in it", "new_string": "new"}
MISSING: dict[str, dict[str, object]] = {
    "apply_diff": {"diff": "<<<<<<< SEARCH\nnowhere\n=======\nnew\n>>>>>>> REPLACE"},
    "apply_patch": {
        "patch": "*** Begin Patch\n*** Update File: {path}\n-nowhere\n+new\n*** End Patch"
    },
    **dict.fromkeys(LITERAL, _NOWHERE),
}


# ── what must come of it ────────────────────────────────────────────────────────────────


def refused(tool: str, kind: str, file: File) -> bool:
    if not file.is_text or kind == "missing":
        return True
    if file.name == "empty":
        return tool in (*LITERAL, "apply_diff")
    if file.name == "only newlines":
        return tool in (*LITERAL, "apply_diff")
    # these two take line ends as they are said, but for CRLF
    return "\r" in file.ends and kind == "delete" and tool in ("edit", "search_replace")


def demand(file: File, kind: str, after: bytes) -> None:
    """Lines that no edit names are there to the byte, and between them the new ones."""
    if kind == "same":
        swapped = tuple((text.replace("same", "SAME"), end) for text, end in file.lines)
        assert after == replace(file, lines=swapped).data
        return
    done, rest = 0, after.removeprefix(file.mark)
    assert len(rest) == len(after) - len(file.mark)
    for edit in edits(kind, len(file.lines)):
        rest = _without(rest, file.bytes_of(done, edit.first))
        final = edit.last == len(file.lines) and bool(file.lines) and not file.lines[-1][1]
        for number, text in enumerate(edit.new, 1):
            rest = _without(rest, file.encoded(text))
            open_end = final and number == len(edit.new)
            rest = rest if open_end else _without_an_end(rest, file)
        done = edit.last
    assert rest == file.bytes_of(done, len(file.lines))


def _without(rest: bytes, start: bytes) -> bytes:
    assert rest[: len(start)] == start
    return rest[len(start) :]


def _without_an_end(rest: bytes, file: File) -> bytes:
    ends = [file.encoded(end) for end in sorted(file.ends, key=len, reverse=True)]
    found = next((end for end in ends if rest.startswith(end)), None)
    assert found is not None, f"{rest[:20]!r} is not one of the ends of the file"
    return rest[len(found) :]


# ── the corpus ──────────────────────────────────────────────────────────────────────────


def applies(tool: str, kind: str, file: File) -> bool:
    if kind not in (file.kinds or KINDS):
        return False
    if kind == "same":
        return tool in REPEATED
    # a whole file always matches, and invalid bytes cannot be written in arguments
    return tool != "write_to_file" or (kind != "missing" and file.name != "Latin-1")


CASES = {
    (file, tool): kinds
    for file in FILES
    for tool in TOOLS
    if (kinds := [kind for kind in KINDS if applies(tool, kind, file)])
}


def test_the_corpus_is_large():
    assert sum(map(len, CASES.values())) >= 500


def laid_out(bench: Workbench, file: File, place: str) -> str:
    """Write the file; return the path for the tools."""
    root = bench.root / place
    bench.put(f"{place}/folder/real.txt", file.data).chmod(file.mode)
    match file.linked:
        case "symbolic":
            (root / "link.txt").symlink_to("folder/real.txt")
            return f"{place}/link.txt"
        case "folder":
            (root / "linked").symlink_to("folder")
            return f"{place}/linked/real.txt"
        case "hard":
            os.link(root / "folder/real.txt", root / "other.txt")
    return f"{place}/folder/real.txt"


async def carried_out(
    bench: Workbench, path: str, all_calls: Iterable[dict[str, object]], tool: str
) -> None:
    named = {"write_to_file": "path", "apply_diff": "path"}.get(tool, "file_path")
    where = {} if tool == "apply_patch" else {named: path}
    for call in all_calls:
        said = {key: _named(value, path) for key, value in call.items()}
        await bench.run(tool, **where, **said)


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
async def test_an_edit_changes_what_it_names_and_nothing_else(tmp_path: Path, file: File):
    bench = Workbench(tmp_path)
    for tool in TOOLS:
        for kind in CASES.get((file, tool), ()):
            await _demand_an_edit(bench, file, tool, kind)


async def _demand_an_edit(bench: Workbench, file: File, tool: str, kind: str) -> None:
    place = f"{tool}/{kind}"  # which the message of a failure names
    path = laid_out(bench, file, place)
    before = os.stat(bench.root / path)
    if refused(tool, kind, file):
        with pytest.raises(ToolError):
            await carried_out(bench, path, calls(tool, kind, file), tool)
        assert bench.bytes_of(path) == file.data
        now = os.stat(bench.root / path)
        assert (now.st_mtime_ns, now.st_ino) == (before.st_mtime_ns, before.st_ino)
    else:
        await carried_out(bench, path, calls(tool, kind, file), tool)
        demand(file, kind, bench.bytes_of(path))
    assert os.stat(bench.root / path).st_mode == before.st_mode
    _demand_as_found(bench.root / place, file)


def _named(value: object, path: str) -> object:
    return value.replace("{path}", path, 1) if isinstance(value, str) else value


def _demand_as_found(root: Path, file: File) -> None:
    """Check that links are still links, and that no new files exist."""
    assert os.listdir(root / "folder") == ["real.txt"]
    match file.linked:
        case "symbolic":
            assert os.readlink(root / "link.txt") == "folder/real.txt"
        case "folder":
            assert os.readlink(root / "linked") == "folder"
        case "hard":
            assert (root / "other.txt").read_bytes() == file.data


def typed(text: str) -> str:
    plain = {"\u00a0": " ", "“": '"', "”": '"', "–": "-", "’": "'", "…": "..."}
    return "".join(plain.get(sign, sign) for sign in text)


LOOSE = [
    pytest.param("apply_patch", "trailing whitespace", str.rstrip, id="patch, trailing"),
    pytest.param("apply_patch", "tabs", str.strip, id="patch, indentation"),
    pytest.param("apply_patch", "typographic", typed, id="patch, typography"),
    pytest.param("apply_diff", "trailing whitespace", str.rstrip, id="blocks, trailing"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "name", "loosely"), LOOSE)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_lines_around_a_change_stay_though_quoted_loosely(
    tmp_path: Path, tool: str, name: str, loosely: Callable[[str], str], end: str
):
    (file,) = (file for file in FILES if file.name == name)
    file = replace(file, lines=tuple((text, end) for text in file.texts))
    quoted = replace(file, lines=tuple((loosely(text), end) for text in file.texts))
    around = "new one"
    if tool == "apply_patch":
        call = _as_patch(quoted, [Edit(3, 4, (around,))])
    else:
        old, new = quoted.texts[2:5], [quoted.texts[2], around, quoted.texts[4]]
        both = ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]
        call = {"diff": "\n".join(both)}
    bench = Workbench(tmp_path)
    bench.put("a.txt", file.data)
    await carried_out(bench, "a.txt", [call], tool)
    indentation = "\t\t" if name == "tabs" else ""
    fresh = file.encoded(indentation + around + end)
    assert bench.bytes_of("a.txt") == file.bytes_of(0, 3) + fresh + file.bytes_of(4, 7)


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool in MISSING])
async def test_a_miss_is_an_error_of_the_model(tmp_path: Path, tool: str):
    bench = Workbench(tmp_path)
    bench.put("a.txt", PLAIN.data)
    with pytest.raises(BadArguments, match=r"a\.txt was not changed"):
        await carried_out(bench, "a.txt", [MISSING[tool]], tool)


def _read_through(text: str) -> int:
    """Costs to look at every word of a text once."""
    return sum(len(word) for line in text.split("\n") for word in line.split())


def _cost(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@pytest.mark.parametrize(
    "tool", ["apply_diff", "edit", "search_replace", "edit_file", "apply_patch"]
)
async def test_a_miss_in_a_long_file_costs_as_much_as_reading_it_some_times(
    tmp_path: Path, tool: str
):
    texts = [f"    value_{number % 97} = compute(item, {number})" for number in range(LONG)]
    text = "\n".join(texts)
    wanted = [line.replace("compute", "calculate") for line in texts[3_000:3_030]]
    file = File("long", lines(*wanted))
    all_lines = [Edit(0, len(wanted), ("new",))]
    call = TELLING[tool](file, all_lines) if tool in TELLING else _as_pieces(file, all_lines[0])
    bench = Workbench(tmp_path)
    bench.put("a.txt", text)
    spent = list[float]()
    for _ in range(3):
        begun = time.process_time()
        with pytest.raises(BadArguments, match="Nearest: lines 3001-3030"):
            await carried_out(bench, "a.txt", [call], tool)
        spent.append(time.process_time() - begun)
    assert min(spent) < 100 * min(_cost(lambda: _read_through(text)) for _ in range(3))
