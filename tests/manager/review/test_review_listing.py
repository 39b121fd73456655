"""Listing the changes of a worktree without running anything of it."""

from base64 import b64encode
from pathlib import Path

import pytest

from rookery.manager.review.checkout_changes import GitScope
from rookery.manager.review.file_diffs import TextDiff
from rookery.manager.shown_rows import ChangedFile, Review, WorktreeStats
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import Code, Worktree
from support.worktree_folders import (
    Operations,
    WorktreeBench,
    files_in,
    git,
    put,
    result,
    review_operations,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\0\0"


@pytest.fixture
def handler(bench: WorktreeBench) -> Operations:
    return review_operations(bench.folder)


def review(handler: Operations, worktree: Worktree | None, scope: GitScope = "branch") -> Review:
    return result(Review, handler.changes(worktree, scope))


def files(
    handler: Operations, worktree: Worktree | None, scope: GitScope = "branch"
) -> dict[str, ChangedFile]:
    return {each.path: each for each in review(handler, worktree, scope).files}


def diff(
    handler: Operations, worktree: Worktree | None, path: str, scope: GitScope = "branch"
) -> TextDiff:
    return result(TextDiff, handler.diff(worktree, scope, path))


def kinds(found: TextDiff) -> list[tuple[str, bytes]]:
    return [(line.kind, line.data) for line in found.lines if line.kind != "gap"]


def worked(bench: WorktreeBench) -> Worktree:
    """Committed, staged, unstaged, not tracked, moved, removed, ignored."""
    worktree = bench.made()
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"ONE\ntwo\nthree\nfour\nfive\n"})
    git(folder, "commit", "-q", "-am", "committed")
    put(folder, {"b.txt": b"staged\n"})
    git(folder, "add", "b.txt")
    put(folder, {"b.txt": b"staged\nand more\n", "new/file": b"one\ntwo", "x.log": b"ignored\n"})
    (folder / "src/deep/c.py").rename(folder / "moved.py")
    (folder / "run.sh").unlink()
    return worktree


EXPECTED = WorktreeStats(files=5, added=5, removed=3, ahead=1, behind=0, uncommitted=5)


def test_branch_shows_all_changes_since_the_merge_base_and_looking_changes_nothing(
    bench: WorktreeBench, handler: Operations
):
    worktree = bench.begun(worked)
    folder = Path(worktree.path)
    before = files_in(folder), git(folder, "status", "--porcelain"), git(folder, "ls-files", "-s")
    objects = {*(bench.folder / ".git/objects").rglob("*")}
    found = review(handler, worktree)
    assert found.base == git(bench.folder, "rev-parse", "HEAD").decode().strip()
    assert [(f.kind, f.path, f.old_path, f.added, f.removed) for f in found.files] == [
        ("changed", "a.txt", "", 1, 1),
        ("changed", "b.txt", "", 2, 1),
        ("renamed", "moved.py", "src/deep/c.py", 0, 0),
        ("added", "new/file", "", 2, 0),
        ("removed", "run.sh", "", 0, 1),
    ]
    assert (found.stats, found.notes) == (EXPECTED, ())
    diff(handler, worktree, "new/file")
    now = files_in(folder), git(folder, "status", "--porcelain"), git(folder, "ls-files", "-s")
    assert now == before
    new = {*(bench.folder / ".git/objects").rglob("*")} - objects
    assert [each for each in new if each.is_file() and not each.name.startswith("9de29bb2")] == []


def test_staged_and_unstaged_are_distinguished_and_parent_changes_are_not_shown(
    bench: WorktreeBench, handler: Operations
):
    worktree = bench.begun(worked)
    assert [(f.path, f.added, f.removed) for f in files(handler, worktree, "staged").values()] == [
        ("b.txt", 1, 1)
    ]
    assert kinds(diff(handler, worktree, "b.txt", "staged")) == [
        ("removed", b"bee\n"),
        ("added", b"staged\n"),
    ]
    unstaged = files(handler, worktree, "unstaged")
    assert list(unstaged) == ["b.txt", "moved.py", "new/file", "run.sh"]
    assert kinds(diff(handler, worktree, "b.txt", "unstaged")) == [
        ("same", b"staged\n"),
        ("added", b"and more\n"),
    ]
    put(bench.folder, {"a.txt": b"other\n", "other": b"other\n"})
    git(bench.folder, "add", "a.txt", "other")
    git(bench.folder, "commit", "-q", "-m", "meanwhile")
    found = review(handler, worktree)
    assert "other" not in [each.path for each in found.files]
    assert (found.stats.ahead, found.stats.behind) == (1, 1)


def test_a_local_session_is_compared_with_its_checked_out_commit(
    bench: WorktreeBench, handler: Operations
):
    put(bench.folder, {"a.txt": b"changed\n", "new": b"new\n"})
    assert [(f.path, f.kind) for f in files(handler, None).values()] == [
        ("a.txt", "changed"),
        ("new", "added"),
    ]


def test_a_repository_without_a_commit_is_all_new(tmp_path: Path):
    folder = tmp_path / "fresh"
    folder.mkdir()
    git(folder, "init", "-q")
    put(folder, {"a": b"a\n"})
    found = review(review_operations(folder), None)
    assert (found.base, [each.path for each in found.files]) == ("", ["a"])


def test_large_binary_generated_and_pictures_are_marked(bench: WorktreeBench, handler: Operations):
    git(bench.folder, "rm", "-q", "--cached", ".gitattributes")
    put(bench.folder, {".gitattributes": b"crlf.txt text\nmade/* linguist-generated\n"})
    git(bench.folder, "add", ".gitattributes")
    git(bench.folder, "commit", "-q", "-m", "attributes")
    worktree = bench.made()
    folder = Path(worktree.path)
    put(
        folder,
        {
            "large.txt": b"x\n" * 600_000,
            "picture.bin": b"\0other",
            "picture.png": PNG,
            "vector.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>\n",
            "package-lock.json": b"{}\n",
            "app.min.js": b"x\n",
            "made/by": b"program\n",
            "mine.py": b"print()\n",
            ".gitattributes": b"mine.py linguist-generated -diff\n",
        },
    )
    found = files(handler, worktree)
    assert {path for path, each in found.items() if each.too_large} == {"large.txt"}
    assert {path for path, each in found.items() if each.binary} == {"picture.bin", "picture.png"}
    assert {path for path, each in found.items() if each.image} == {"picture.png"}
    made = {"package-lock.json", "app.min.js", "made/by"}
    assert {path for path, each in found.items() if each.generated} == made
    assert (found["mine.py"].added, found["mine.py"].binary) == (1, False)
    assert kinds(diff(handler, worktree, "mine.py")) == [("added", b"print()\n")]
    large = diff(handler, worktree, "large.txt")
    assert (large.lines, large.note) == (
        (),
        "Too large to show: 0 bytes before, 1200000 bytes now.",
    )
    pictures = diff(handler, worktree, "picture.png")
    assert pictures.new_image == f"data:image/png;base64,{b64encode(PNG).decode()}"
    assert pictures.old_image == ""
    vector = diff(handler, worktree, "vector.svg")
    assert vector.new_image == ""
    assert [line.kind for line in vector.lines] == ["added"]
    note = diff(handler, worktree, "picture.bin").note
    assert note == "Not a text file: 256 bytes before, 6 bytes now."


def test_files_are_shown_and_listed_up_to_a_limit(
    bench: WorktreeBench, handler: Operations, monkeypatch: pytest.MonkeyPatch
):
    worktree = bench.begun()
    new = {"one": b"12345678\n", "two": b"12345678\n", "x-1": b"1\n", "x-2": b"2\n"}
    put(Path(worktree.path), new)
    monkeypatch.setattr("rookery.manager.review.file_diffs.MOST_SHOWN", 10)
    shown = [each.too_large for each in files(handler, worktree).values()]
    assert shown == [False, False, True, True]
    monkeypatch.setattr("rookery.manager.review.file_diffs.MOST_LISTED", 2)
    found = review(handler, worktree)
    assert ([each.path for each in found.files], found.stats.files) == (["one", "two"], 4)
    assert found.notes == ("2 more changed files are not listed.",)
    monkeypatch.undo()
    monkeypatch.setattr("rookery.manager.review.file_diffs.MOST_LISTED", 2)
    assert kinds(diff(handler, worktree, "x-2")) == [("added", b"2\n")]


def test_links_submodules_and_modes_are_shown(bench: WorktreeBench, handler: Operations):
    worktree = bench.begun()
    folder = Path(worktree.path)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "run.sh").chmod(0o644)
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("b.txt")
    inner = WorktreeBench.new(folder / "inner")
    other = WorktreeBench.new(folder / "other")
    head = git(inner.folder, "rev-parse", "HEAD").decode().strip()
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{head},inner")
    found = review(handler, worktree)
    assert [(f.path, f.kind) for f in found.files] == [
        ("a.txt", "changed"),
        ("inner", "added"),
        ("link", "added"),
        ("run.sh", "changed"),
    ]
    assert found.notes == (f"{other.folder.name} is a nested repository; it is not shown.",)
    assert diff(handler, worktree, "inner").note == f"A submodule: none before, {head} now."
    link = diff(handler, worktree, "link")
    assert (link.note, kinds(link)) == (
        "A symbolic link; the lines show its target.",
        [("added", b"/etc/passwd")],
    )
    mode = diff(handler, worktree, "run.sh")
    assert (mode.lines, mode.note) == ((), "Only its mode has changed, from 100755 to 100644.")


def test_files_with_unusual_names_are_found(bench: WorktreeBench, handler: Operations):
    worktree = bench.begun()
    names = ("caf\u00e9", "\udcff\udcfe", 'odd "name"\n\\x', "-dash", ":(x)")
    put(Path(worktree.path), {name: f"{at}\n".encode() for at, name in enumerate(names)})
    shown = list(files(handler, worktree))
    assert [path for path in shown if not path.isprintable()] == []
    "".join(shown).encode()
    lines = [kinds(diff(handler, worktree, path)) for path in shown]
    assert sorted(lines) == [[("added", f"{at}\n".encode())] for at in range(5)]


def test_line_ends_converted_by_git_are_not_a_change(bench: WorktreeBench, handler: Operations):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"crlf.txt": b"first\r\nsecond\r\n"})
    assert files(handler, worktree) == {}
    put(folder, {"crlf.txt": b"first\r\nthird\r\n", "b.txt": b"bee\r\n"})
    assert kinds(diff(handler, worktree, "crlf.txt")) == [
        ("same", b"first\n"),
        ("removed", b"second\n"),
        ("added", b"third\n"),
    ]
    assert kinds(diff(handler, worktree, "b.txt")) == [("removed", b"bee\n"), ("added", b"bee\r\n")]


def test_files_whose_changes_git_ignores_are_named(bench: WorktreeBench, handler: Operations):
    worktree = bench.begun()
    folder = Path(worktree.path)
    git(folder, "update-index", "--assume-unchanged", "a.txt")
    git(folder, "update-index", "--skip-worktree", "b.txt")
    put(folder, {"a.txt": b"hidden\n"})
    assert review(handler, worktree).notes == (
        "Git ignores changes of these, so they are not shown: a.txt, b.txt.",
    )


def test_a_file_in_conflict_is_shown(bench: WorktreeBench, handler: Operations):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"mine\n"})
    git(folder, "commit", "-q", "-am", "mine")
    put(bench.folder, {"a.txt": b"theirs\n"})
    git(bench.folder, "commit", "-q", "-am", "theirs")
    with pytest.raises(Exception, match="merge"):
        git(folder, "merge", "main")
    found = review(handler, worktree)
    assert [(each.path, each.kind) for each in found.files] == [("a.txt", "changed")]
    assert found.notes == ("In conflict: a.txt.",)
    assert list(files(handler, worktree, "unstaged")) == ["a.txt"]


def test_a_missing_worktree_is_reported_and_not_searched(bench: WorktreeBench, handler: Operations):
    worktree = bench.begun()
    git(bench.folder, "worktree", "remove", "--force", worktree.path)
    for said in (
        handler.changes(worktree, "branch"),
        handler.diff(worktree, "branch", "a.txt"),
        handler.revert(worktree, "a.txt", ""),
        handler.stats(worktree),
    ):
        assert isinstance(said, InTheWay)
        assert said.code is Code.MISSING


def test_statistics_are_counted_again_only_if_something_changed(
    bench: WorktreeBench, handler: Operations, monkeypatch: pytest.MonkeyPatch
):
    worktree = bench.begun(worked)
    folder = Path(worktree.path)
    assert handler.stats(worktree) == EXPECTED
    counted: list[str] = []
    from rookery.manager.review import checkout_changes as statistics

    honest = statistics.raw_changes
    monkeypatch.setattr(
        statistics, "raw_changes", lambda *given: counted.append("") or honest(*given)
    )
    assert handler.stats(worktree) == EXPECTED
    assert counted == []
    put(folder, {"new/file": b"one\ntwo\nthree\n"})
    seen = result(WorktreeStats, handler.stats(worktree))
    assert (seen.added, len(counted)) == (6, 1)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    assert handler.stats(worktree) == WorktreeStats(
        files=5, added=6, removed=3, ahead=2, behind=0, uncommitted=0
    )
