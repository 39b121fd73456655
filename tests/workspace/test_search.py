import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from rookery.core.limits import Limits
from rookery.errors import BadArguments, Denied, ToolError
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import Ripgrep, SearchCommand, find_ripgrep, without_ripgrep
from rookery.workspace.source_files import batch_size
from rookery.workspace.tree import OVERVIEW_BYTES, WorkspaceFinder
from support.workspace_folder import Workbench, permit_to_read

pytestmark = pytest.mark.anyio

RIPGREP = find_ripgrep()
ENGINES = [
    pytest.param(
        Ripgrep(RIPGREP),
        id="ripgrep",
        marks=pytest.mark.skipif(not RIPGREP, reason="rg is not installed"),
    ),
    pytest.param(without_ripgrep, id="own"),
]
both_engines = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


async def search(
    bench: Workbench, engine: SearchCommand, regex: str, path: str = ".", glob: str | None = None
) -> str:
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits, command=engine)
    located = bench.files.locate(path)
    return await finder.search(path, regex, glob, permit_to_read(located))


async def listing(bench: Workbench, path: str = ".", *, recursive: bool = True) -> list[str]:
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits)
    permit = permit_to_read(bench.files.locate(path))
    return (await finder.list(path, recursive=recursive, permit=permit)).split("\n")


def fill(bench: Workbench) -> None:
    bench.put(".gitignore", "*.log\nbuild/\n!keep.log\n")
    bench.put("a.py", "import os\n\ndef main():\n    return 1\n\n\n\ndef other():\n    pass\n")
    bench.put("crlf.txt", "foo\r\nfoobar\r\n")
    bench.put("marked.txt", b"\xef\xbb\xbffoo first\n")
    bench.put("wide.txt", "foo wide\n".encode("utf-16"))
    bench.put("latin.txt", b"foo caf\xe9\n")
    bench.put("binary.dat", b"foo\n" + b"x\n" * 90_000 + b"\0")
    bench.put("noise.log", "foo\n")
    bench.put("keep.log", "foo kept\n")
    bench.put("build/out.txt", "foo\n")
    bench.put("src/deep/b.ts", "const foo = 1\n")
    bench.put("src/deep/c.tsx", "const foo = 2")
    bench.put("src/.gitignore", "deep/c.tsx\n")
    bench.put(".hidden/d.txt", "foo hidden\n")
    bench.put("node_modules/e.js", "foo module\n")
    bench.put("pkg/f.go", "foo package\n")
    bench.put("bell\a.txt", "ring\n")
    (bench.root / "link.txt").symlink_to("a.py")
    (bench.root / "loop").symlink_to(".")


CASES: list[tuple[str, str, str | None, str]] = [
    # groups with a line of context
    ("^def ", ".", None,
     "Found 2 matches.\n\n# a.py\n  2 | \n  3 | def main():\n  4 |     return 1\n----\n"
     "  7 | \n  8 | def other():\n  9 |     pass"),
    # line ends are not part of a line
    ("foo$", ".", "*.txt", "Found 1 match.\n\n# crlf.txt\n  1 | foo\n  2 | foobar"),
    # encodings
    ("^foo (first|wide|caf)", ".", None,
     "Found 3 matches.\n\n# latin.txt\n  1 | foo caf\ufffd\n\n# marked.txt\n  1 | foo first\n\n"
     "# wide.txt\n  1 | foo wide"),
    # ignored, binary and outside files are skipped, also with a pattern
    (r"\bfoo\b", ".", "*.{ts,tsx,go,log,dat,js}",
     "Found 3 matches.\n\n# keep.log\n  1 | foo kept\n\n# pkg/f.go\n  1 | foo package\n\n"
     "# src/deep/b.ts\n  1 | const foo = 1"),
    # a pattern may begin at the workspace
    ("foo", "src", "src/**/*.ts", "Found 1 match.\n\n# src/deep/b.ts\n  1 | const foo = 1"),
    # a pattern may begin at the folder
    ("foo", "src", "deep/*", "Found 1 match.\n\n# src/deep/b.ts\n  1 | const foo = 1"),
    # a pattern may exclude
    ("foo", ".", "!*.{txt,log,ts}", "Found 1 match.\n\n# pkg/f.go\n  1 | foo package"),
    # an ignored folder that was named is searched
    ("foo", "build", None, "Found 1 match.\n\n# build/out.txt\n  1 | foo"),
    # a hidden folder that was named is searched
    ("foo", ".hidden", None, "Found 1 match.\n\n# .hidden/d.txt\n  1 | foo hidden"),
    # a file
    ("foo", "src/deep/c.tsx", None, "Found 1 match.\n\n# src/deep/c.tsx\n  1 | const foo = 2"),
    # odd name
    ("ring", ".", None, "Found 1 match.\n\n# bell\\x07.txt\n  1 | ring"),
    # a regex is not an option
    ("-e nothing", ".", None, "Found 0 matches."),
    # a backslash before n
    (r"\\n", ".", None, "Found 0 matches."),
]  # fmt: skip


@both_engines
async def test_both_engines_find_the_same(bench: Workbench, engine: SearchCommand):
    fill(bench)
    for regex, path, glob, expected in CASES:
        assert await search(bench, engine, regex, path, glob) == expected, (regex, path, glob)


@both_engines
async def test_a_faulty_regex_is_reported_to_the_model(bench: Workbench, engine: SearchCommand):
    bench.put("a.txt", "a\n")
    for regex in ("a(", "[z-a]", "*", r"a\n", "a\nb", "a\0b", "x" * 20_000):
        with pytest.raises(BadArguments, match=r"regular expression is invalid\. .|regex"):
            await search(bench, engine, regex)


@both_engines
@pytest.mark.parametrize("matches", [300, 30_000])
async def test_the_cap_keeps_what_was_found(bench: Workbench, engine: SearchCommand, matches: int):
    bench.put("a.txt", "first\n")
    bench.put("b.txt", "match\n" * matches)
    found = (await search(bench, engine, "match")).split("\n")
    if matches == 300:
        assert found[0] == "Found 300 matches."
    else:
        assert found[0].startswith("Showing the first 300 of 300+ matches.")
    assert found[1:4] == ["", "# b.txt", "  1 | match"]
    assert found[-1] == "300 | match"


async def test_long_lines_are_cut(bench: Workbench):
    bench.put("a.txt", "x" * 500 + "\n" + "y" * 501)
    found = await search(bench, without_ripgrep, "^x")
    assert found.split("\n")[3:] == ["  1 | " + "x" * 500, "  2 | " + "y" * 500 + " [cut]"]


async def test_a_large_result_stops_at_the_size_a_model_can_read(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(read_bytes=1000))
    bench.put("a.txt", ("x" * 99 + "\n") * 100)
    assert (await search(bench, without_ripgrep, "x")).startswith(
        "Showing the first 11 of 11+ matches."
    )


async def test_a_catastrophic_expression_is_stopped(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(search_seconds=1))
    bench.put("a.txt", "no match here\n")
    bench.put("b.txt", "a" * 60 + "b\n")
    found = await search(bench, without_ripgrep, "^(a+)+$")
    assert found.endswith("(The search was stopped after 1 seconds and is incomplete.)")


async def test_too_many_and_too_large_files_are_reported(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(search_files=20, edit_bytes=1024))
    bench.put("a.txt", "foo" * 1000)
    assert "not searched: 1." in await search(bench, without_ripgrep, "foo")
    for number in range(30):
        bench.put(f"many/{number}.txt", "foo\n")
    assert "Incomplete: there are too many files" in await search(bench, without_ripgrep, "foo")


@both_engines
async def test_files_of_a_second_batch_are_searched_the_same_way(
    tmp_path: Path, engine: SearchCommand
):
    bench = Workbench(tmp_path, Limits(edit_bytes=400_000))
    for number in range(batch_size()):
        bench.put(f"first/{number}", "other\n")
    bench.put("later/-", "foo dash\n")
    bench.put("later/binary.dat", b"foo\n" + b"x\n" * 90_000 + b"\0")
    bench.put("later/large.txt", "foo" * 200_000)
    bench.put(os.fsdecode(b"later/latin-\xe9"), b"foo caf\xe9\n")
    bench.put("later/none.txt", "other\n")
    bench.put("later/wide.txt", "foo wide\n".encode("utf-16"))
    assert await search(bench, engine, "^foo") == (
        "Found 3 matches.\n\n# later/-\n  1 | foo dash\n\n# later/latin-\\udce9\n"
        "  1 | foo caf\ufffd\n\n# later/wide.txt\n  1 | foo wide\n"
        "(Files above 0 MiB were not searched: 1.)"
    )


class LinkingRipgrep(Ripgrep):
    """Replaces a file by a link before ripgrep is given its name."""

    def __init__(self, replaced: Path, target: Path) -> None:
        super().__init__(RIPGREP)
        self._replaced, self._target = replaced, target

    def naming(self, regex: str, files: Sequence[str]) -> list[str]:
        self._replaced.unlink()
        self._replaced.symlink_to(self._target)
        return super().naming(regex, files)


@pytest.mark.skipif(not RIPGREP, reason="rg is not installed")
async def test_a_link_that_replaces_one_of_many_files_is_not_followed(tmp_path: Path):
    (tmp_path / "outside").write_text("foo secret\n")
    (tmp_path / "work").mkdir()
    bench = Workbench(tmp_path / "work")
    for number in range(batch_size()):
        bench.put(f"first/{number}", "other\n")
    bench.put("later/a.txt", "foo inside\n")
    engine = LinkingRipgrep(bench.root / "later/a.txt", tmp_path / "outside")
    assert await search(bench, engine, "foo") == "Found 0 matches."


async def test_unreadable_folders_are_counted(bench: Workbench):
    bench.put("closed/a.txt", "foo")
    (bench.root / "closed").chmod(0)
    assert "could not be read: 1" in await search(bench, without_ripgrep, "foo")


async def test_searching_and_listing_need_a_permit(bench: Workbench):
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits)
    with pytest.raises(Denied):
        await finder.list("src", recursive=False, permit=permit_to_read("."))
    with pytest.raises(Denied):
        await finder.search("src", "x", None, permit_to_read("."))


@pytest.fixture
def inner(tmp_path: Path) -> Workbench:
    """A workspace with files and folders around it."""
    around = Workbench(tmp_path)
    around.put("near/.gitignore", "*.log\n")
    around.put("near/a.txt", "foo near\n")
    around.put("near/a.log", "foo log\n")
    around.put("near/deep/b.txt", "foo deep\n")
    around.put("home/.config/gh/hosts.yml", "foo token\n")
    around.put("home/.config/app/x.txt", "foo app\n")
    around.put("work/w.txt", "foo work\n")
    bench = Workbench(tmp_path / "work")
    bench.files = WorkspaceFiles(bench.root, bench.limits, home=tmp_path / "home")
    return bench


def around(bench: Workbench, name: str) -> str:
    return str(bench.files.boundaries.root.parent / name)


async def test_a_folder_outside_is_searched_with_a_permit_for_it(inner: Workbench):
    near = around(inner, "near")
    assert await search(inner, without_ripgrep, "foo", "../near") == (
        f"Found 2 matches.\n\n# {near}/a.txt\n  1 | foo near\n\n# {near}/deep/b.txt\n  1 | foo deep"
    )
    assert await search(inner, without_ripgrep, "foo", f"{near}/a.log") == (
        f"Found 1 match.\n\n# {near}/a.log\n  1 | foo log"
    )
    finder = WorkspaceFinder(inner.root, inner.files, inner.limits)
    for permitted in (".", "..", "../near", around(inner, "")[:-1], f"{near}/deep"):
        with pytest.raises(Denied):
            await finder.search("../near", "foo", None, permit_to_read(permitted))
    with pytest.raises(ToolError, match="whole disk"):
        await search(inner, without_ripgrep, "foo", "/")


async def test_a_folder_outside_is_listed_by_absolute_paths(inner: Workbench):
    near = around(inner, "near")
    names = [".gitignore", "a.txt", "deep/", "deep/b.txt"]
    assert await listing(inner, "../near") == [f"{near}/{name}" for name in names]


async def test_searches_skip_credential_folders(inner: Workbench):
    config = around(inner, "home/.config")
    assert await search(inner, without_ripgrep, "foo", config) == (
        f"Found 1 match.\n\n# {config}/app/x.txt\n  1 | foo app\n(1 hidden: credentials.)"
    )
    assert (await listing(inner, config))[0] == f"{config}/app/"


@both_engines
async def test_a_search_leaves_no_file_open(bench: Workbench, engine: SearchCommand):
    for number in range(50):
        bench.put(f"{number}.txt", "foo\n")
    before = len(os.listdir("/dev/fd"))
    for regex in ("foo", "nothing"):
        await search(bench, engine, regex)
    assert len(os.listdir("/dev/fd")) <= before + 2


async def test_listing_needs_a_folder_and_searching_an_existing_path(bench: Workbench):
    bench.put("a.txt", "x")
    with pytest.raises(ToolError, match="not a folder"):
        await listing(bench, "a.txt")
    with pytest.raises(ToolError, match="No such path: missing"):
        await search(bench, without_ripgrep, "x", "missing")


async def test_a_recursive_listing_omits_ignored_and_hidden_files(bench: Workbench):
    fill(bench)
    assert await listing(bench) == [
        ".gitignore",
        "a.py",
        "bell\\x07.txt",
        "binary.dat",
        "crlf.txt",
        "keep.log",
        "latin.txt",
        "link.txt -> a.py",
        "loop -> .",
        "marked.txt",
        "src/",
        "src/.gitignore",
        "src/deep/",
        "src/deep/b.ts",
        "wide.txt",
        "(Not searched: .hidden/, node_modules/, pkg/)",
    ]


async def test_a_flat_listing_names_hidden_folders(bench: Workbench):
    bench.put(".hidden/a", "x")
    bench.put("src/deep/b", "x")
    assert await listing(bench, recursive=False) == [".hidden/", "src/"]


async def test_an_explicitly_named_folder_is_listed_in_full(bench: Workbench):
    bench.put(".gitignore", "*.log\n")
    bench.put(".hidden/a.log", "x")
    bench.put(".hidden/.deeper/b", "x")
    bench.put(".hidden/tmp/c", "x")
    bench.put(".hidden/node_modules/d", "x")
    assert await listing(bench, ".hidden") == [
        ".hidden/.deeper/",
        ".hidden/.deeper/b",
        ".hidden/a.log",
        ".hidden/tmp/",
        ".hidden/tmp/c",
        "(Not searched: .hidden/node_modules/)",
    ]


async def test_names_are_sorted_naturally(bench: Workbench):
    for name in ("b10", "B2", "a/z", "a.txt", "A1"):
        bench.put(name, "x")
    assert await listing(bench) == ["a/", "a/z", "A1", "a.txt", "B2", "b10"]


@pytest.mark.parametrize(("entries", "cut"), [(20, False), (21, True)])
async def test_a_long_listing_is_cut_and_says_so(tmp_path: Path, entries: int, cut: bool):
    bench = Workbench(tmp_path, Limits(list_entries=20))
    for number in range(entries):
        (bench.root / f"{number}.txt").touch()
    rows = await listing(bench)
    assert len(rows) == 20 + cut
    assert rows[:2] == ["0.txt", "1.txt"]
    assert rows[-1].startswith("(Only 20 entries are shown") is cut


async def test_top_level_folders_are_the_last_to_be_cut(tmp_path: Path):
    bench = Workbench(tmp_path, Limits(list_entries=20))
    for number in range(30):
        bench.put(f"a/{number}.txt", "")
        bench.put(f"{number}.txt", "")
    (bench.root / "z").mkdir()
    rows = await listing(bench)
    assert {"a/", "z/"} <= set(rows)
    assert len(rows) == 21


async def test_an_empty_folder_and_the_home_folder(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    assert await listing(bench) == ["(No files in ./)"]
    bench.put("a.txt", "x")
    monkeypatch.setenv("HOME", str(bench.root))
    assert "a.txt" not in await listing(bench)


async def test_an_invalid_gitignore_pattern_is_skipped(bench: Workbench):
    bench.put(".gitignore", "!\n[z-a]\n*.log\n")
    bench.put("a.log", "x")
    bench.put("a.txt", "x")
    assert await listing(bench) == [".gitignore", "a.txt"]


@both_engines
def test_a_line_with_a_million_matches_is_shown_once(tmp_path: Path, engine: SearchCommand):
    for piece in (b"a", b"a b", "aä".encode(), b"a\xff"):
        line = piece * 1_000_000
        (tmp_path / "a.txt").write_bytes(line)
        said = subprocess.run(
            engine("a", 5, ["a.txt"]), cwd=tmp_path, stdout=subprocess.PIPE, timeout=60, check=True
        )
        assert len(said.stdout) < 4 * len(line), piece


@both_engines
async def test_a_match_in_the_longest_line_is_shown(bench: Workbench, engine: SearchCommand):
    bench.put("a.txt", "a" * bench.limits.edit_bytes)
    assert await search(bench, engine, "a") == (
        f"Found 1 match.\n\n# a.txt\n  1 | {'a' * 500} [cut]"
    )


@both_engines
async def test_a_match_in_a_line_that_is_too_long_is_reported(
    tmp_path: Path, engine: SearchCommand
):
    bench = Workbench(tmp_path, Limits(edit_bytes=1000))
    bench.put("a.txt", "\x01" * 900 + "a")
    bench.put("b.txt", "a")
    assert await search(bench, engine, "a") == (
        "Found 1 match.\n\n# b.txt\n  1 | a\n(Lines that match but are too long to show: 1.)"
    )


async def test_a_pipe_is_not_opened(bench: Workbench):
    os.mkfifo(bench.root / "pipe")
    with anyio.fail_after(60), pytest.raises(ToolError, match="pipe is a device, pipe or socket"):
        await search(bench, without_ripgrep, "a", "pipe")
    with pytest.raises(ToolError, match="not a folder"):
        await listing(bench, "pipe")


GREEDY = "*a" * 30 + "*b"


def test_no_pattern_blocks_the_process(tmp_path: Path):
    (tmp_path / ".gitignore").write_text(GREEDY)
    (tmp_path / ("a" * 200)).write_text("found")
    program = f"""
import anyio
from pathlib import Path
from support.workspace_folder import Workbench
async def search():
    bench = Workbench(Path({str(tmp_path)!r}))
    for wanted in ("*", {GREEDY!r}):
        outcome = await bench.run("search_files", path=".", regex="found", file_pattern=wanted)
        print(outcome.text.splitlines()[0])
anyio.run(search)
"""
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests), str(tests.parent / "src")])
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "Found 1 match.\nFound 0 matches.\n"


def test_path_suggestions_exclude_version_control_files(bench: Workbench):
    for path in (".git/config", ".hg/store", ".svn/db", "src/.git", ".github/ci.yml", "a.py"):
        bench.put(path, "x")
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits)
    found = {each.path for each in finder.paths()}
    assert {"a.py", "src"} <= found
    assert not {path for path in found if {".git", ".hg", ".svn"} & set(path.split("/"))}


async def test_an_overview_is_short_and_shows_no_more_than_a_listing(bench: Workbench):
    fill(bench)
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits)
    overview = (await finder.overview()).split("\n")
    assert overview == await listing(bench)
    for number in range(120):
        bench.put(f"many/{'x' * 40}{number}.txt", "")
    overview = (await finder.overview()).split("\n")
    assert len("\n".join(overview).encode()) < OVERVIEW_BYTES + 100
    assert overview[-1] == "(The rest is left out; list a folder to see more of it.)"


async def test_a_home_folder_has_no_overview(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(bench.root.resolve()))
    assert await WorkspaceFinder(bench.root, bench.files, bench.limits).overview() == ""
