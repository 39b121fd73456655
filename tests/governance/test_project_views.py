"""Intents, ledger and blame, as a page asks for them."""

import os
import uuid
from pathlib import Path

import pytest

from rookery.core.queries import BlamedLine, IntentRow
from rookery.errors import CommandRejected, RookeryError
from rookery.governance.ledger.segments import sealed_files
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.settings_handler import LookupHandler
from rookery.manager.requests import (
    BlameFile,
    ListIntents,
    ReadTrace,
)
from rookery.manager.sessions.session_folders import SessionFolders, SessionLaunch, Workspaces
from rookery.platform.user_folders import find_places
from support.intent_files import SPEC_EXAMPLE
from support.sample_ledgers import GOLDEN_LINES, compress
from support.traced_workspace import TASK, TracedWorkspace

pytestmark = pytest.mark.anyio
JWT = "src/auth/jwt.py"
WRITTEN = "def verify(token):\n    return True\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "decoy"))
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path / "home"))
    project = tmp_path / "work"
    project.mkdir()
    return project


def router_of(project: Path) -> Router:
    places = find_places(os.environ)
    dependencies = ProjectDependencies(project, places)
    return Router([LookupHandler(dependencies, Workspaces(project, places))])


def session_in(project: Path, workspace: Path) -> str:
    session_id = str(uuid.uuid4())
    launch = SessionLaunch(project=str(project), workspace=str(workspace))
    SessionFolders(find_places(os.environ)).of(session_id).keep_launch(launch)
    return session_id


def everything_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


async def test_an_ungoverned_folder_has_empty_views_and_gets_no_files(project: Path):
    (project / "a.txt").write_text("a\n")
    handler, before = router_of(project), everything_in(project.parent)
    assert await handler.do(ListIntents()) == ()
    assert await handler.do(ReadTrace()) == ()
    assert await handler.do(BlameFile(path="a.txt")) == ()
    assert everything_in(project.parent) == before


async def test_intents_are_listed_in_order_with_their_recorded_lines(project: Path):
    work = TracedWorkspace(project)
    work.agent_writes(JWT, WRITTEN)
    work.agent_writes(JWT, f"{WRITTEN}\n")
    work.note(kind="blocked", outcome="denied", more={"targets": [{"path": "src/api.py"}]})
    work.note(kind="command", command={"text": "true", "exit_code": 0})
    first, second = await router_of(project).do(ListIntents())
    assert first == IntentRow(
        id="INT-001",
        name="JWT authentication migration",
        status="IN_PROGRESS",
        scope=("src/auth/**", "src/middleware/jwt.py", "!src/auth/legacy/**"),
        criteria=(
            "Unit tests under tests/auth pass.",
            "When a token is expired, the API shall answer 401.",
        ),
        problem=first.problem,
        writes=2,
    )
    assert first.problem in ("", "The intent has expired."), "which depends on the day of the test"
    assert (second.id, second.status, second.writes) == ("INT-003", "COMPLETED", 0)


async def test_writes_in_packed_ledgers_count(project: Path):
    work = TracedWorkspace(project)
    work.agent_writes(JWT, WRITTEN)
    work.recording.ledger.seal(TASK)
    work.agent_writes(JWT, f"{WRITTEN}\n")
    handler = router_of(project)
    assert (await handler.do(ListIntents()))[0].writes == 2
    compress(sealed_files(work.folder)[0])
    assert (await handler.do(ListIntents()))[0].writes == 2


async def test_an_intent_with_errors_is_marked_and_an_unusable_file_is_refused(
    project: Path,
):
    work = TracedWorkspace(project, intents=SPEC_EXAMPLE.replace("[src/database/**]", '["../up"]'))
    broken = (await router_of(project).do(ListIntents()))[1]
    assert broken.id == "INT-003"
    assert broken.problem
    work.layout.intent_file.write_text("active_intents: [\n")
    with pytest.raises(CommandRejected, match="rookery intents validate"):
        await router_of(project).do(ListIntents())


async def test_the_newest_records_come_first_without_housekeeping(project: Path):
    work = TracedWorkspace(project)
    work.note(
        kind="decision",
        tool_name="apply_diff",
        tool_use_id="toolu_1",
        approval={"answer": "once", "by": "human"},
    )
    written = work.agent_writes(JWT, WRITTEN)
    work.recording.ledger.checkpoint(TASK)
    newest, decision = await router_of(project).do(ReadTrace())
    assert (newest.id, newest.kind, newest.intent) == (written, "mutation", "INT-001")
    assert (newest.tool, newest.paths, newest.session_id) == ("apply_diff", (JWT,), TASK)
    assert newest.summary == f"{JWT}  +2 -0  in scope"
    assert newest.ts > 1_700_000_000_000
    assert (decision.kind, decision.approved_by) == ("decision", "human")


FILTERS = {
    "how many": (ReadTrace(most=1), ["mutation"]),
    "less than one": (ReadTrace(most=-3), ["mutation"]),
    "intent": (ReadTrace(intent="INT-001"), ["mutation", "blocked"]),
    "another intent": (ReadTrace(intent="INT-9"), []),
    "path": (ReadTrace(path="src/auth/*"), ["mutation"]),
    "a path that was refused": (ReadTrace(path="src/api.py"), ["blocked"]),
}


async def test_records_are_filtered(project: Path):
    work = TracedWorkspace(project)
    work.note(kind="blocked", outcome="denied", more={"targets": [{"path": "src/api.py"}]})
    work.agent_writes(JWT, WRITTEN)
    for name, (asked, kinds) in FILTERS.items():
        found = await router_of(project).do(asked)
        assert [each.kind for each in found] == kinds, name


async def test_a_session_is_looked_up_in_the_ledger_of_its_worktree(project: Path):
    TracedWorkspace(project).agent_writes(JWT, WRITTEN)
    other = project.parent / "worktree"
    other.mkdir()
    apart = TracedWorkspace(other)
    session_id = session_in(project, other)
    apart.agent_writes("there.py", "x = 1\n", task_id=session_id)
    apart.agent_writes("there.py", "x = 1\ny = 2\n")
    handler = router_of(project)
    (row,) = await handler.do(ReadTrace(session_id=session_id))
    assert (row.paths, row.session_id) == (("there.py",), session_id)
    lines = await handler.do(BlameFile(path="there.py", session_id=session_id))
    assert [line.text for line in lines] == ["x = 1", "y = 2"]


async def test_a_worktree_that_is_gone_is_not_taken_for_the_project(project: Path):
    TracedWorkspace(project).agent_writes(JWT, WRITTEN)
    session_id = session_in(project, project.parent / "gone")
    stranger = session_in(project.parent, project)
    handler = router_of(project)
    for request in (ReadTrace(session_id=session_id), BlameFile(path=JWT, session_id=session_id)):
        with pytest.raises(CommandRejected, match="does not exist"):
            await handler.do(request)
    with pytest.raises(CommandRejected, match="No such session"):
        await handler.do(ReadTrace(session_id=stranger))


async def test_every_line_names_its_intent_and_its_approver(project: Path):
    work = TracedWorkspace(project)
    work.person_writes(JWT, "import time\n")
    work.commit()
    work.note(
        kind="decision",
        tool_name="apply_diff",
        tool_use_id="toolu_1",
        approval={"answer": "once", "by": "human", "text": "go on"},
    )
    record = work.agent_writes(JWT, f"import time\n{WRITTEN}")
    work.person_writes(JWT, f"import time\n{WRITTEN.replace('True', 'False')}")
    mine, agents, edited = await router_of(project).do(BlameFile(path=JWT))
    assert mine == BlamedLine(line=1, text="import time")
    assert edited == BlamedLine(line=3, text="    return False"), "by whom is not recorded"
    assert (agents.record_id, agents.intent, agents.tool) == (record, "INT-001", "apply_diff")
    assert agents.criterion.startswith("Unit tests under tests/auth pass.; When a token")
    assert agents.approved_by == "human (once)"
    assert agents.when > 1_700_000_000_000


REFUSED = {
    "upwards": "../secret",
    "from the root": "/etc/passwd",
    "nothing": "",
    "a link that leads out": "out.txt",
    "a pipe": "pipe",
    "a folder": "src",
    "no text": "binary",
    "too large": "large",
    "not there": "none.py",
    "a NUL": "a\0b",
}


async def test_files_that_are_not_workspace_text_are_not_read(project: Path):
    work = TracedWorkspace(project)
    work.agent_writes("src/a.py", "x = 1\n")
    (project.parent / "secret").write_text("a secret\n")
    (project / "out.txt").symlink_to(project.parent / "secret")
    os.mkfifo(project / "pipe")
    (project / "binary").write_bytes(b"a\0b")
    (project / "large").write_bytes(b"x\n" * 600_000)
    for path in REFUSED.values():
        with pytest.raises(CommandRejected) as refused:
            await router_of(project).do(BlameFile(path=path))
        assert "a secret" not in str(refused.value), path


async def test_hidden_characters_are_spelled_out(project: Path):
    work = TracedWorkspace(project)
    work.agent_writes("a\u202eb.py", "x = 1 # \u202e\n")
    (row,) = await router_of(project).do(ReadTrace(intent="INT-001"))
    assert row.paths == ("a<U+202E>b.py",)
    (line,) = await router_of(project).do(BlameFile(path="a\u202eb.py"))
    assert line.text == "x = 1 # <U+202E>"


async def test_a_ledger_from_a_clone_cannot_block_the_views(project: Path):
    work = TracedWorkspace(project)
    work.active.write_bytes(b"".join(GOLDEN_LINES) + b'{"timestamp": 7}\nno json\n')
    rows = await router_of(project).do(ReadTrace())
    assert [row.ts > 0 for row in rows] == [False, True, True]
    work.active.unlink()
    os.mkfifo(work.active)
    with pytest.raises(RookeryError):
        await router_of(project).do(ReadTrace())


def _read_so_far() -> int:
    """Bytes that this process has read."""
    reported = Path("/proc/self/io").read_text()
    return int(reported.split("rchar: ")[1].split()[0])
