"""The changes of sessions as the page shows them: lines, comments, reverts."""

import base64
import json
import os

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import reply_from_json, reply_to_json
from rookery.manager.requests import ReadDiff, RevertFile, ReviewChanges, SendComments
from rookery.manager.shown_rows import Comment, DiffLine, WorktreeStats
from support.manager_project import Project
from support.worktree_folders import git, put
from support.worktree_requests import with_repository, worktree_manager

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\0\0"
WRITES_TWICE = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\ntwo\\n"}}
- calls:
  - {tool: read_file, arguments: {path: a.txt}}
- calls:
  - {tool: write_to_file, arguments: {path: a.txt, content: "new\\n"}}
"""
ENDS = """\
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Heard."}}
"""
LINKS = """\
- calls:
  - tool: execute_command
    arguments:
      command: "rm link run.sh s*t; ln -sfn b.txt other; echo x > new; mv new swapped"
      cwd: null
      timeout: null
"""


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


def texts(lines: tuple[DiffLine, ...]) -> list[tuple[str, str]]:
    return [(line.kind, line.html) for line in lines]


async def test_worktree_changes_can_be_shown_commented_and_reverted(project: Project):
    async with worktree_manager(project) as at:
        shown = await at.completed(WRITES_TWICE + ENDS)
        session_id, folder = shown.record.session_id, at.place(shown)
        request = SendComments(
            session_id=session_id,
            comments=(
                Comment(path="made.txt", line=2, text="why two?"),
                Comment(path="a.txt", line=3, text="keep this", old=True),
            ),
            text="Otherwise fine.",
        )
        for path, line, why in (
            ("made.txt", 9, "no longer has line 9"),
            ("b.txt", 1, "no longer changed"),
        ):
            gone = replace(request, comments=(Comment(path=path, line=line, text="?"),))
            with pytest.raises(CommandRejected, match=why):
                await at.do(gone)
        await at.do(request)
        await at.watched.result(session_id, "Heard.")
        (said,) = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert said == (
            "Comments on your changes:\n\n"
            "made.txt, line 2:\n> two\nwhy two?\n\n"
            "a.txt, line 3 before the change:\n> three\nkeep this\n\n"
            "Otherwise fine."
        )
        put(folder, {"a.txt": b"one\ntwo\nTHREE\nfour\nfive", "x.py": b"x = '<b>'\n", "p.png": PNG})
        put(folder, {"\udcff": b"\xff\n\x1b[31m\xe2\x80\xaeevil\n"})
        look = ReviewChanges(session_id=session_id)
        review = await at.do(look)
        assert reply_from_json(look, json.loads(reply_to_json(review))) == review
        assert [(each.path, each.kind) for each in review.files[:4]] == [
            ("a.txt", "changed"),
            ("made.txt", "added"),
            ("p.png", "added"),
            ("x.py", "added"),
        ]
        assert review.stats == WorktreeStats(files=5, added=7, removed=2, uncommitted=5)
        diff = await at.do(ReadDiff(session_id=session_id, path="a.txt", context=1))
        assert texts(diff.lines) == [
            ("gap", "1 line left out"),
            ("same", "two"),
            ("removed", "three"),
            ("added", "THREE"),
            ("same", "four"),
            ("removed", "five"),
            ("added", 'five<span class="unseen">no newline at the end</span>'),
        ]
        assert (diff.lines[2].old, diff.lines[2].new) == (3, None)
        code = await at.do(ReadDiff(session_id=session_id, path="x.py"))
        assert "<b>" not in code.lines[0].html
        assert "&lt;b&gt;" in code.lines[0].html
        picture = await at.do(ReadDiff(session_id=session_id, path="p.png"))
        encoded = base64.b64encode(PNG).decode()
        assert (picture.old_image, picture.new_image) == ("", f"data:image/png;base64,{encoded}")
        odd = await at.do(ReadDiff(session_id=session_id, path=review.files[4].path))
        reply_to_json(odd).decode("utf-8")
        assert not {"\x1b", "\u202e"} & set(odd.lines[1].html)
        made = review.files[1]
        with pytest.raises(CommandRejected, match="changed since you saw it"):
            await at.do(RevertFile(session_id=session_id, path=made.path, digest="x"))
        back = RevertFile(session_id=session_id, path=made.path, digest=made.digest)
        (reported,) = (await at.do(back)).notes
        assert not (folder / "made.txt").exists()
        ref = reported.removeprefix("Uncommitted work is saved as ").removesuffix(".")
        assert git(project.path, "show", f"{ref}:made.txt") == b"one\ntwo\n"


async def test_local_changes_can_be_reverted_unless_edited_since(project: Project):
    folder = project.path
    put(folder, {"run.sh": b"#!/bin/sh\n", "spelled\tout": b"old\n"})
    (folder / "run.sh").chmod(0o755)
    for name in ("link", "other", "swapped"):
        (folder / name).symlink_to("a.txt")
    async with worktree_manager(project) as at:
        shown = await at.completed(WRITES_TWICE + LINKS + ENDS, where="local")
        session_id = shown.record.session_id
        put(folder, {"b.txt": b"somebody else\n"})
        own = await at.do(ReviewChanges(session_id=session_id, scope="session"))
        files = {each.path: each for each in own.files}
        assert sorted(files) == sorted(
            ["a.txt", "made.txt", "link", "other", "run.sh", "spelled\\tout", "swapped"]
        )
        a, made, spelled = files["a.txt"], files["made.txt"], files["spelled\\tout"]
        assert [(f.kind, f.added, f.removed) for f in (a, made)] == [
            ("changed", 1, 5),
            ("added", 2, 0),
        ]
        diff = await at.do(ReadDiff(session_id=session_id, scope="session", path="made.txt"))
        assert texts(diff.lines) == [("added", "one"), ("added", "two")]
        everything = await at.do(ReviewChanges(session_id=session_id))
        assert {"a.txt", "b.txt", "made.txt"} <= {each.path for each in everything.files}
        put(folder, {"made.txt": b"somebody went on\n"})
        for file, why in ((made, "changed since you saw it"), (spelled, "revert it yourself")):
            with pytest.raises(CommandRejected, match=why):
                await at.do(RevertFile(session_id=session_id, path=file.path, digest=file.digest))
        for file in own.files:
            if file not in (made, spelled):
                await at.do(RevertFile(session_id=session_id, path=file.path, digest=file.digest))
    assert git(folder, "diff", "--name-only") == b"b.txt\nrun.sh\n"
    assert (folder / "made.txt").read_bytes() == b"somebody went on\n"
    links = [os.readlink(folder / name) for name in ("link", "other", "swapped")]
    assert links == ["a.txt"] * 3
    assert os.access(folder / "run.sh", os.X_OK)
    assert not list(folder.glob("spelled*"))


async def test_review_requests_for_an_unknown_session_are_refused(project: Project):
    unknown = "00000000-0000-4000-8000-000000000000"
    async with worktree_manager(project) as at:
        for request in (
            ReviewChanges(session_id=unknown),
            ReadDiff(session_id="../../x", path="a.txt"),
            RevertFile(session_id=unknown, path="a.txt", digest=""),
            SendComments(session_id=unknown, comments=(Comment(path="a", line=1, text="x"),)),
        ):
            with pytest.raises(CommandRejected, match="No such session"):
                await at.do(request)
