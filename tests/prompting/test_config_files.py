import os
import time
from pathlib import Path

import pytest

from rookery.prompting import config_files
from rookery.prompting.config_files import (
    LARGEST,
    MOST_FILES,
    MOST_LINKS,
    ConfigFolder,
    ConfigScan,
    FileCache,
)
from rookery.workspace.boundaries import Boundaries
from support.config_folders import ConfigBench


@pytest.fixture
def bench(tmp_path: Path) -> ConfigBench:
    return ConfigBench(tmp_path)


def project(bench: ConfigBench) -> ConfigFolder:
    found = bench.places().project
    assert found
    return found


def names(bench: ConfigBench, folder: str = "rules") -> tuple[list[str], list[str]]:
    scan = ConfigScan()
    return [file.name for file in project(bench).files(folder, scan)], scan.problems


def test_files_are_sorted_by_their_base_names(bench: ConfigBench):
    for path in ("b.md", "a/Z.md", "c/A.md", "a.md"):
        bench.put(f"rules/{path}", "x")
    assert names(bench)[0] == ["a.md", "c/A.md", "b.md", "a/Z.md"]


def test_a_link_inside_the_workspace_is_listed_under_its_own_name(bench: ConfigBench):
    bench.put("docs/style.md", "inside")
    bench.put("more/x.md", "x")
    bench.link("rules/a.md", "../docs/style.md")
    bench.link("rules/folder", bench.root / "more")
    assert names(bench) == (["a.md", "folder/x.md"], [])
    assert project(bench).text(str(bench.root / "rules/a.md"), ConfigScan()) == "inside"


@pytest.mark.parametrize(
    "target",
    ["elsewhere/secret.md", "~/.ssh/id_rsa", "config/keys.toml"],
    ids=["outside", "credential", "own folder"],
)
def test_a_link_out_of_the_workspace_is_skipped_and_reported(bench: ConfigBench, target: str):
    file = bench.put(target, "secret")
    bench.link("rules/a.md", file)
    problem = f"rules/a.md is skipped: it points outside the workspace, to {file}."
    assert names(bench) == ([], [problem])
    scan = ConfigScan()
    assert project(bench).text(str(bench.root / "rules/a.md"), scan) == ""
    assert scan.problems == [problem]


def test_credentials_inside_the_workspace_are_not_read(bench: ConfigBench):
    bench.put("project/.ssh/id_rsa", "secret")
    inside = Boundaries(bench.root, home=bench.root / "project", own=[])
    bench.link("rules/a.md", bench.root / "project/.ssh/id_rsa")
    scan = ConfigScan()
    assert ConfigFolder(inside.root, "", inside).files("rules", scan) == []
    assert scan.problems == ["rules/a.md is skipped: it holds credentials."]


def test_a_folder_link_out_of_the_workspace_is_skipped(bench: ConfigBench):
    bench.put("elsewhere/rules/a.md", "secret")
    bench.link("rules", bench.outside / "rules")
    found, problems = names(bench)
    assert found == []
    assert "points outside the workspace" in problems[0]


def test_files_hidden_from_the_agent_are_not_read(bench: ConfigBench):
    bench.put(".rookeryignore", "private/\n")
    bench.put("private/a.md", "secret")
    bench.link("rules/a.md", "../private/a.md")
    found, problems = names(bench)
    assert found == []
    assert "hidden from the agent" in problems[0]


def test_circular_links_are_not_followed(bench: ConfigBench):
    bench.put("rules/a.md", "x")
    bench.link("rules/again", bench.root / "rules")
    assert names(bench) == (
        ["a.md"],
        ["Some links in rules lead to folders that were already read; they are not followed."],
    )


@pytest.mark.parametrize("target", [".", "..", "deep", "../rules/deep/.."])
def test_many_circular_links_are_read_once(bench: ConfigBench, target: str):
    bench.put("rules/a.md", "x")
    bench.put("rules/deep/b.md", "x")
    for number in range(40):
        bench.link(f"rules/{number}", target)
        bench.link(f"rules/deep/{number}", target if target == ".." else ".")
    scan = ConfigScan()
    found = [file.name for file in project(bench).files("rules", scan)]
    assert found == ["a.md", "deep/b.md"]
    assert scan.entries < 200
    assert len(scan.problems) == 1


def test_a_folder_keeps_its_own_name_when_links_to_it_sort_first(
    bench: ConfigBench,
):
    bench.put("rules/z/deep/a.md", "x")
    bench.link("rules/a", "z")
    bench.link("rules/b", "z/deep")
    assert names(bench)[0] == ["z/deep/a.md"]


def test_chained_links_are_followed_up_to_a_limit(bench: ConfigBench):
    bench.link("rules/on", bench.root / "part0")
    for number in range(MOST_LINKS + 2):
        bench.put(f"part{number}/{number}.md", "x")
        bench.link(f"part{number}/on", bench.root / f"part{number + 1}")
    found, problems = names(bench)
    assert len(found) == MOST_LINKS
    assert any("behind more than" in problem for problem in problems)


def test_a_walk_stops_at_the_limit_of_files(bench: ConfigBench):
    for number in range(MOST_FILES + 50):
        bench.put(f"rules/{number}.md", "x")
    scan = ConfigScan()
    assert len(project(bench).files("rules", scan)) == MOST_FILES
    assert scan.problems == [f"rules has more than {MOST_FILES} files; the rest is not read."]


def test_a_walk_stops_at_the_limit_of_entries_and_reports_it_once(
    bench: ConfigBench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(config_files, "MOST_ENTRIES", 100)
    for number in range(150):
        (bench.root / f"rules/{number}").mkdir(parents=True)
        if number % 10 == 0:
            bench.put(f"rules/{number}/a.md", "x")
    scan = ConfigScan()
    project(bench).files("rules", scan)
    assert scan.entries <= 101 + len(scan.marks)
    assert scan.problems == ["rules is only partly read: it has too many files and folders."]


def test_all_walks_of_a_scan_share_one_limit(bench: ConfigBench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config_files, "MOST_ENTRIES_PER_SCAN", 100)
    for number in range(10):
        bench.put(f"rules/{number}.txt", "x")
    scan = ConfigScan()
    for _ in range(10):
        assert len(project(bench).files("rules", scan)) == 10
    assert scan.problems == []
    assert project(bench).files("rules", scan) == []
    assert scan.problems


def test_a_named_pipe_is_not_opened(bench: ConfigBench):
    bench.put("rules/a.md", "x")
    os.mkfifo(bench.root / "rules/pipe.md")
    found, problems = names(bench)
    assert found == ["a.md"]
    assert problems == ["rules/pipe.md is skipped: it is not a regular file."]
    scan = ConfigScan()
    assert project(bench).text(str(bench.root / "rules/pipe.md"), scan) == ""
    assert scan.problems


@pytest.mark.parametrize(
    ("data", "text", "problem"),
    [
        (b"\xef\xbb\xbfa\r\nb", "a\nb", ""),
        (b"a\0b", "", "not a text file"),
        ("a\u202eb".encode(), "a<U+202E>b", "invisible"),
        (b"caf\xe9", "caf?", ""),
    ],
    ids=["mark", "binary", "unseen", "latin"],
)
def test_text_encodings_are_recognised(bench: ConfigBench, data: bytes, text: str, problem: str):
    file = bench.put("a.md", data)
    scan = ConfigScan()
    assert project(bench).text(str(file), scan) == text
    assert [problem in each for each in scan.problems] == ([True] if problem else [])


def test_a_long_file_is_cut_with_a_note(bench: ConfigBench):
    file = bench.put("a.md", "line\n" * LARGEST)
    scan = ConfigScan()
    text = project(bench).text(str(file), scan)
    assert len(text) < LARGEST + 200
    assert "(Cut here: " in text
    assert "Only the first" in scan.problems[0]


def test_the_users_own_files_may_be_links_to_anywhere(bench: ConfigBench):
    file = bench.put("elsewhere/mine.md", "mine")
    (bench.config / "rules").mkdir()
    (bench.config / "rules" / "a.md").symlink_to(file)
    folder, scan = bench.places().config, ConfigScan()
    (found,) = folder.files("rules", scan)
    assert folder.text(found.path, scan) == "mine"
    assert folder.label(found.path) == "~/.config/product/rules/a.md"
    assert (folder.origin, scan.problems) == ("user", [])


def later() -> int:
    """A clock by which everything that was just written has long been settled."""
    return time.time_ns() + 10**10


class Reads:
    def __init__(self, bench: ConfigBench) -> None:
        self.count = 0
        self._folder = project(bench)

    def __call__(self, scan: ConfigScan) -> list[str]:
        self.count += 1
        files = self._folder.files("rules", scan)
        return [self._folder.text(file.path, scan) for file in files]


CHANGES = {
    "edited": lambda bench: bench.put("rules/a.md", "new"),
    "same size": lambda bench: bench.put("rules/a.md", "two"),
    "added": lambda bench: bench.put("rules/deep/b.md", "two"),
    "removed": lambda bench: (bench.root / "rules/a.md").unlink(),
    "kept back": lambda bench: bench.put(".rookeryignore", "rules/\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_are_read_again_only_after_a_change(bench: ConfigBench, change: str):
    bench.put("rules/a.md", "one")
    (bench.root / "rules/deep").mkdir()
    reads = Reads(bench)
    remembered = FileCache(reads, now=later)
    first = remembered.get()
    assert remembered.get() is first
    assert reads.count == 1
    CHANGES[change](bench)
    assert remembered.get() != first
    assert reads.count == 2


def test_a_changed_link_target_is_read_again(bench: ConfigBench):
    bench.put("one.md", "one")
    bench.put("two.md", "two")
    bench.link("rules/a.md", "../one.md")
    remembered = FileCache(Reads(bench), now=later)
    assert remembered.get() == ["one"]
    bench.put("one.md", "one more")
    assert remembered.get() == ["one more"]
    (bench.root / "rules/a.md").unlink()
    bench.link("rules/a.md", "../two.md")
    assert remembered.get() == ["two"]


def test_a_file_written_a_moment_ago_is_read_again(bench: ConfigBench):
    bench.put("rules/a.md", "one")
    reads = Reads(bench)
    remembered = FileCache(reads)
    assert remembered.get() == remembered.get() == ["one"]
    assert reads.count == 2
