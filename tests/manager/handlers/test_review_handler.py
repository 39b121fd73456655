"""What sessions have changed, as the page shows it: lines, comments, reverts, versions."""

import base64
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import reply_from_json, reply_to_json
from rookery.manager.shown_rows import Comment, DiffLine, WorktreeStats
from rookery.manager.worktree_requests import (
    CompareVersions,
    ReadDiff,
    RevertFile,
    ReviewChanges,
    SendComments,
)
from rookery.permissions.trust import TrustStore
from support.manager_project import WRITES, Project
from support.worktree_folders import git, put
from support.worktree_requests import DONE, AtDesk, at_desk, with_repository

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\0\0"
TWICE = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\ntwo\\n"}}
- calls:
  - {tool: read_file, arguments: {path: a.txt}}
- calls:
  - {tool: write_to_file, arguments: {path: a.txt, content: "new\\n"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Heard."}}
"""


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


async def local(at: AtDesk, script: str = TWICE) -> str:
    return (await at.completed(script, where="local")).record.session_id


async def apart(at: AtDesk, script: str = WRITES) -> tuple[str, Path]:
    shown = await at.completed(script)
    return shown.record.session_id, at.place(shown)


def texts(lines: tuple[DiffLine, ...]) -> list[tuple[str, str]]:
    return [(line.kind, line.html) for line in lines]


async def test_the_changes_of_a_worktree_and_their_lines(project: Project):
    async with at_desk(project) as at:
        session_id, folder = await apart(at)
        put(folder, {"a.txt": b"one\ntwo\nTHREE\nfour\nfive", "x.py": b"x = '<b>'\n", "p.png": PNG})
        review = await at.do(ReviewChanges(session_id=session_id))
        assert [(each.path, each.kind) for each in review.files] == [
            ("a.txt", "changed"),
            ("made.txt", "added"),
            ("p.png", "added"),
            ("x.py", "added"),
        ]
        assert review.stats == WorktreeStats(files=4, added=4, removed=2, uncommitted=4)
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


async def test_names_and_texts_that_are_none_come_over_the_wire(project: Project):
    async with at_desk(project) as at:
        session_id, folder = await apart(at, DONE)
        put(folder, {"\udcff": b"\xff\x00"[:1] + b"\n\x1b[31m\xe2\x80\xaeevil\n"})
        request = ReviewChanges(session_id=session_id)
        review = await at.do(request)
        reply_to_json(review).decode("utf-8")
        (file,) = review.files
        diff = await at.do(ReadDiff(session_id=session_id, path=file.path))
        reply_to_json(diff).decode("utf-8")
        assert "\x1b" not in diff.lines[1].html
        assert "\u202e" not in diff.lines[1].html


async def test_what_a_local_session_itself_has_changed(project: Project):
    async with at_desk(project) as at:
        session_id = await local(at)
        put(project.path, {"b.txt": b"somebody else\n"})
        own = await at.do(ReviewChanges(session_id=session_id, scope="session"))
        assert [(f.path, f.kind, f.added, f.removed) for f in own.files] == [
            ("a.txt", "changed", 1, 5),
            ("made.txt", "added", 2, 0),
        ]
        diff = await at.do(ReadDiff(session_id=session_id, scope="session", path="made.txt"))
        assert texts(diff.lines) == [("added", "one"), ("added", "two")]
        everything = await at.do(ReviewChanges(session_id=session_id))
        assert [each.path for each in everything.files] == ["a.txt", "b.txt", "made.txt"]


async def test_without_a_repository_the_session_tells_what_it_did(tmp_path: Path):
    project = Project(tmp_path)
    async with at_desk(project) as at:
        session_id = await local(at)
        review = await at.do(ReviewChanges(session_id=session_id))
        assert [each.path for each in review.files] == ["a.txt", "made.txt"]
        assert review.notes
        diff = await at.do(ReadDiff(session_id=session_id, path="a.txt"))
        assert texts(diff.lines) == [("added", "new")]


async def test_a_file_is_put_back_under_the_digest_it_was_shown_with(project: Project):
    async with at_desk(project) as at:
        session_id, folder = await apart(at)
        review = await at.do(ReviewChanges(session_id=session_id))
        (file,) = review.files
        with pytest.raises(CommandRejected, match="changed since you saw it"):
            await at.do(RevertFile(session_id=session_id, path=file.path, digest="x"))
        request = RevertFile(session_id=session_id, path=file.path, digest=file.digest)
        (told,) = (await at.do(request)).notes
        assert not (folder / "made.txt").exists()
        ref = told.removeprefix("Uncommitted work is saved as ").removesuffix(".")
        assert git(project.path, "show", f"{ref}:made.txt") == b"one\n"


async def test_what_a_local_session_did_is_put_back_unless_somebody_went_on(project: Project):
    async with at_desk(project) as at:
        session_id = await local(at)
        own = await at.do(ReviewChanges(session_id=session_id, scope="session"))
        a, made = own.files
        put(project.path, {"made.txt": b"somebody went on\n"})
        with pytest.raises(CommandRejected, match="changed since you saw it"):
            await at.do(RevertFile(session_id=session_id, path=made.path, digest=made.digest))
        await at.do(RevertFile(session_id=session_id, path=a.path, digest=a.digest))
        assert git(project.path, "diff", "--name-only") == b""
        assert (project.path / "made.txt").read_bytes() == b"somebody went on\n"


async def test_comments_go_to_the_session_as_one_message_with_their_lines(project: Project):
    async with at_desk(project) as at:
        session_id, _ = await apart(at, TWICE)
        request = SendComments(
            session_id=session_id,
            comments=(
                Comment(path="made.txt", line=2, text="why two?"),
                Comment(path="a.txt", line=3, text="keep this", old=True),
            ),
            text="Otherwise fine.",
        )
        gone = replace(request, comments=(Comment(path="made.txt", line=9, text="?"),))
        with pytest.raises(CommandRejected, match="no longer has line 9"):
            await at.do(gone)
        with pytest.raises(CommandRejected, match="no longer changed"):
            await at.do(replace(request, comments=(Comment(path="b.txt", line=1, text="?"),)))
        await at.do(request)
        await at.watched.result(session_id, "Heard.")
        (said,) = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert said == (
            "Comments on your changes:\n\n"
            "made.txt, line 2:\n> two\nwhy two?\n\n"
            "a.txt, line 3 before the change:\n> three\nkeep this\n\n"
            "Otherwise fine."
        )


async def test_versions_are_compared(project: Project):
    async with at_desk(project) as at:
        other = f"scripted/{project.wish(DONE).model}"
        started = await at.start(WRITES, versions=2, models=("", other))
        for session_id in started.session_ids:
            await at.watched.at(session_id, "completed")
        shown = at.supervisor.session(started.session_ids[0])
        assert shown
        versions = await at.do(CompareVersions(group_id=shown.record.group_id))
        assert [(v.name, v.stats.files, v.result, v.state) for v in versions] == [
            ("Write it now", 1, "Done.", "completed"),
            ("Write it now v2", 0, "Done.", "completed"),
        ]
        assert versions[1].model == other
        with pytest.raises(CommandRejected, match="No such versions"):
            await at.do(CompareVersions(group_id=""))


async def test_the_repository_of_a_folder_that_is_not_trusted_is_not_asked(
    project: Project,
):
    async with at_desk(project) as at:
        session_id = await local(at)
        TrustStore(project.places.trust_file).forget(project.path)
        for request in (
            ReviewChanges(session_id=session_id),
            ReadDiff(session_id=session_id, path="a.txt"),
            RevertFile(session_id=session_id, path="a.txt", digest=""),
        ):
            with pytest.raises(CommandRejected, match="not trusted"):
                await at.do(request)
        assert (await at.do(ReviewChanges(session_id=session_id, scope="session"))).files


async def test_a_session_that_is_not_there_has_no_changes(project: Project):
    nobody = "00000000-0000-4000-8000-000000000000"
    async with at_desk(project) as at:
        for request in (
            ReviewChanges(session_id=nobody),
            ReadDiff(session_id="../../x", path="a.txt"),
            RevertFile(session_id=nobody, path="a.txt", digest=""),
            SendComments(session_id=nobody, comments=(Comment(path="a", line=1, text="x"),)),
        ):
            with pytest.raises(CommandRejected, match="No such session"):
                await at.do(request)


async def test_answers_come_back_as_they_were_sent(project: Project):
    import json

    async with at_desk(project) as at:
        session_id, _ = await apart(at)
        request = ReviewChanges(session_id=session_id)
        review = await at.do(request)
        assert reply_from_json(request, json.loads(reply_to_json(review))) == review


LINKS = """\
- calls:
  - tool: execute_command
    arguments:
      command: "rm link run.sh; ln -sfn b.txt other; echo x > new; mv new swapped"
      cwd: null
      timeout: null
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""


async def test_links_and_rights_come_back_as_the_session_found_them(project: Project):
    folder = project.path
    put(folder, {"run.sh": b"#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o755)
    for name in ("link", "other", "swapped"):
        (folder / name).symlink_to("a.txt")
    async with at_desk(project) as at:
        session_id = await local(at, LINKS)
        own = await at.do(ReviewChanges(session_id=session_id, scope="session"))
        for file in own.files:
            request = RevertFile(session_id=session_id, path=file.path, digest=file.digest)
            await at.do(request)
    assert [os.readlink(folder / name) for name in ("link", "other", "swapped")] == ["a.txt"] * 3
    assert os.access(folder / "run.sh", os.X_OK)


async def test_a_file_whose_name_was_spelled_out_is_not_taken_for_another(project: Project):
    put(project.path, {"a\tb": b"old\n"})
    async with at_desk(project) as at:
        session_id = await local(at, LINKS.replace("rm link run.sh", "rm a*b"))
        own = await at.do(ReviewChanges(session_id=session_id, scope="session"))
        (file,) = [each for each in own.files if each.path.startswith("a\\")]
        with pytest.raises(CommandRejected, match="revert it yourself"):
            await at.do(RevertFile(session_id=session_id, path=file.path, digest=file.digest))
    assert not list(project.path.glob("a?*b"))
