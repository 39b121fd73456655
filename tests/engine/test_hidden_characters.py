"""Hidden characters in files, searches and output are marked; edits of them stay exact."""

import os
from pathlib import Path

import pytest

from rookery.core.facts import ToolFinished
from support.stage import Stage, call, finish, run, write

pytestmark = pytest.mark.anyio
TEXT = "key = 1\u200b\nnext = 2\n"
SHOWN = "key = 1<U+200B>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text(TEXT, encoding="utf-8")
    (work / "b\u202etxt").write_text("beta\n", encoding="utf-8")
    return work


async def reported(folder: Path, *calls: object) -> list[str]:
    stage = Stage(folder.parent, *([each] for each in calls), [finish()], automatic=True)  # type: ignore[list-item]
    await stage.play("yes")
    return [fact.text for fact in stage.facts if isinstance(fact, ToolFinished)]


async def test_hidden_characters_are_marked_for_the_model(folder: Path):
    read, found, listed, ran = (
        await reported(
            folder,
            call("read_file", path="a.txt"),
            call("search_files", path=".", regex="key"),
            call("list_files", path="."),
            run("cat a.txt; printf '\\xf3\\xa0\\x81\\x81'"),
        )
    )[:4]
    assert SHOWN in read
    assert SHOWN in found
    assert "b\\u202etxt" in listed
    assert SHOWN in ran
    assert "<U+E0041>" in ran
    assert not {"\u200b", "\u202e", "\U000e0041"} & set(read + found + listed + ran)


async def test_a_copied_mark_becomes_the_character_of_the_file(folder: Path):
    edit = call("edit", file_path="a.txt", old_string=SHOWN, new_string=f"{SHOWN} # kept")
    await reported(folder, call("read_file", path="a.txt"), edit)
    assert (folder / "a.txt").read_text(encoding="utf-8") == "key = 1\u200b # kept\nnext = 2\n"


async def test_rewriting_a_whole_file_keeps_its_hidden_characters(folder: Path):
    await reported(folder, call("read_file", path="a.txt"), write("a.txt", f"{SHOWN}\nnext = 3\n"))
    assert (folder / "a.txt").read_text(encoding="utf-8") == "key = 1\u200b\nnext = 3\n"


@pytest.mark.parametrize(
    "copying",
    [
        write("new.txt", f"{SHOWN}\n"),
        call("edit", file_path="c.txt", old_string="three", new_string=SHOWN),
        run("printf '<U+200B>' > new.txt"),
    ],
    ids=["a new file", "another file", "a command"],
)
async def test_a_copied_mark_never_becomes_text(folder: Path, copying: object):
    (folder / "c.txt").write_text("three\n")
    read = [call("read_file", path="a.txt"), call("read_file", path="c.txt")]
    said = (await reported(folder, *read, copying))[2]
    assert "Nothing was done: <U+200B>, which you have read" in said
    assert not (folder / "new.txt").exists()
    assert (folder / "c.txt").read_text() == "three\n"


async def test_a_mark_is_not_allowed_in_a_file_name(folder: Path):
    (said, *_) = await reported(folder, write("b<U+202E>txt", "beta\n"))
    assert "which marks an invisible character" in said
    assert sorted(os.listdir(folder)) == ["a.txt", "b\u202etxt"]


async def test_text_that_only_looks_like_a_mark_is_written_unchanged(folder: Path):
    await reported(folder, write("c.txt", "<U+200B> is a zero width space\n"))
    assert (folder / "c.txt").read_text(encoding="utf-8").startswith("<U+200B> is")
