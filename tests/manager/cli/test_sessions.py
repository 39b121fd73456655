"""`rookery sessions`: the request of each command line, and the printed answer."""

import io
import json
import os
import re
import shlex
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from rookery.cli.main import run
from rookery.core.asks import IntentQuestion
from rookery.core.facts import TaskOpened
from rookery.core.fleet_rows import FleetListing
from rookery.core.queries import (
    BlamedLine,
    FoundPath,
    IntentRow,
    KnownCommand,
    KnownMode,
    KnownModel,
    RestoreRehearsal,
    TraceRow,
)
from rookery.errors import CommandRejected, StorageError
from rookery.manager import list_requests as found
from rookery.manager import requests as asked
from rookery.manager import schedule_requests as planned
from rookery.manager import shown_rows as rows
from rookery.manager.cli.sessions_command import command
from rookery.manager.cli.sessions_list import label_of
from rookery.manager.handlers.router import request_from_json
from rookery.manager.sessions.session_record import Counts
from rookery.manager.sessions.session_states import TRUE_IN, Flags, SessionState
from rookery.platform.user_folders import find_places
from rookery.platform.worktree_values import Importable, KeptWork
from support.scripted_manager import PlayedFamily, scripted_handler
from support.stored_sessions import keep

ONE, TWO = "38e51f0c-0000-4000-8000-000000000001", "38e52a1b-0000-4000-8000-000000000002"
DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJg"
    "gg=="
)
EVIL = "a\x1b[31mb\u202e"
FLAGS = Flags(**dict.fromkeys(TRUE_IN, False))
STATS = rows.WorktreeStats(files=2, added=10, removed=3, ahead=1)


def row(session_id: str = ONE, **more: Any) -> rows.SessionRow:
    given = {"name": "Fix it", "prompt": "fix", "state": SessionState.COMPLETED, "flags": FLAGS}
    return rows.SessionRow(session_id=session_id, **{**given, **more})


def question(session_id: str = ONE, **more: Any) -> rows.InboxRow:
    given = {
        "name": "Fix it",
        "task_id": session_id,
        "ts": 7,
        "ask": "tool",
        "state": SessionState.WAITING_APPROVAL,
        "digest": "d1",
        "title": "Create made.txt",
        "diff": "+one",
    }
    return rows.InboxRow(session_id=session_id, **{**given, **more})


WORKTREE = rows.WorktreeRow(id="w-12345", branch="agent/fix", path="/p", sessions=(ONE,))
SCHEDULE = planned.ScheduleRow(
    id="s1",
    name="Daily",
    prompt="Look",
    cron="0 9 * * *",
    next=0,
    budget=2.0,
    missed=(planned.MissedRun(ts=0, reason="No manager was running."),),
)
FILE = rows.ChangedFile(path="a.py", added=1, removed=1, digest="f1")
ANSWERS: dict[type[Any], Any] = {
    asked.ListSessions: rows.Listing(
        overview=rows.Overview(counts=Counts(active=1, history=1, attention=1), project="/p"),
        sessions=(row(worktree_id="w-12345", group_id="g1", branch="agent/fix"), row(TWO)),
    ),
    asked.ListQuestions: (question(),),
    asked.StartSessions: rows.Started(session_ids=(TWO,)),
    asked.ForkSession: rows.Started(session_ids=(TWO,)),
    asked.ExportSession: rows.Exported(name="fix.md", text="# Fix\n"),
    asked.ListCheckpoints: (
        rows.CheckpointRow(seq=3, ts=0, title="Create made.txt", paths=("a",)),
    ),
    asked.RehearseRestore: RestoreRehearsal(written=("a.py",)),
    asked.ListModels: (KnownModel(provider="p", model="m"),),
    asked.ListModes: (KnownMode(slug="code", name="Code"),),
    asked.ListBranches: ("main",),
    asked.FindPaths: (FoundPath(path="src", folder=True),),
    asked.ListWorktrees: (WORKTREE,),
    asked.ReadStats: STATS,
    asked.PlanApply: rows.Plan(text="1 file would change.", paths=("a.py",), token="t1"),
    asked.PlanRemoval: rows.Plan(text="2 files are not committed.", token="t2"),
    asked.ListImportable: Importable(branches=("other",), worktrees=()),
    asked.ImportWork: WORKTREE,
    asked.ListKept: (KeptWork(ref="refs/k/1", commit="c0", about="a.py"),),
    asked.BringBack: WORKTREE,
    asked.ImportPullRequest: WORKTREE,
    asked.ReadPullRequest: rows.PullRequestRow(number=12, title="Fix", state="open"),
    asked.CreatePullRequest: rows.PullRequestRow(number=12, title="Fix", state="open"),
    asked.ReadScriptLog: rows.ScriptLog(running=True, text="listening\n", first_port=4000),
    asked.ListEditors: (rows.EditorRow(id="code", name="VS Code"),),
    asked.ListScripts: (
        rows.ScriptRow(
            name="run-script", path=".rookery/run-script", text="a\x1bb", digest="d1" * 32
        ),
    ),
    asked.ReviewChanges: rows.Review(scope="branch", base="c0", stats=STATS, files=(FILE,)),
    asked.ReadDiff: rows.FileDiff(
        file=FILE,
        lines=(
            rows.DiffLine(kind="removed", old=1, html="<span class=k>x</span> &lt; 1"),
            rows.DiffLine(kind="added", new=1, html="y"),
        ),
    ),
    asked.CompareVersions: (
        rows.Version(
            session_id=ONE,
            worktree_id="w-12345",
            name="Fix it",
            model="m",
            state=SessionState.COMPLETED,
            stats=STATS,
            result="Done.",
        ),
    ),
    asked.ListIntents: (IntentRow(id="INT-001", name="Parser", status="IN_PROGRESS"),),
    asked.ReadTrace: (TraceRow(id="r1", ts=0, kind="write", intent="INT-001", summary="a.py"),),
    asked.BlameFile: (BlamedLine(line=1, text="x", intent="INT-001"),),
    asked.ReadSettings: (rows.SettingRow(key="manager.notify", value="true", type="bool"),),
    found.SearchSessions: (found.FoundSession(session_id=ONE, name="Roof", excerpt="the roof"),),
    found.ListCommands: (KnownCommand(name="init", description="Write AGENTS.md."),),
    found.ListIssues: (found.IssueRow(number=12, title="The roof leaks"),),
    found.ReadCosts: found.Costs(
        since="2026-01-01",
        today=found.CostRow(name="2026-01-02", tokens_in=9, cost=0.5),
        daily_budget=2.0,
        sessions=(found.CostRow(name="Roof", session_id=ONE, tokens_in=9, cost=0.5),),
    ),
    planned.ListSchedules: (SCHEDULE,),
    planned.AddSchedule: planned.ScheduleSecret(schedule=SCHEDULE, token="t1", notes=("Note.",)),
    planned.ChangeSchedule: SCHEDULE,
    planned.RunSchedule: rows.Started(session_ids=(TWO,)),
    planned.RenewWebhook: planned.ScheduleSecret(schedule=SCHEDULE, token="t2", path="/p/x"),
    found.ListFleet: FleetListing(workers=(), queues=(), sessions=()),
    asked.ReadPushKey: "k1",
    asked.ListDevices: (rows.Device(id="d1", name="phone", paired=0, seen=0),),
}


@pytest.fixture
def handler() -> Iterator[PlayedFamily]:
    places = find_places(os.environ)
    with scripted_handler(Path.cwd(), places, dict(os.environ), ANSWERS) as family:
        yield family


Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(handler: PlayedFamily, capsys: pytest.CaptureFixture[str]) -> Said:
    """A command's exit code and output."""

    def call(*words: str) -> tuple[int, str, str]:
        code = run(["sessions", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


START = asked.StartSessions(prompt="fix")
TABLE = Path(__file__).with_name("requests.yaml").read_text(encoding="utf-8").replace("ONE", ONE)
MADE: list[tuple[list[str], Any]] = [
    (shlex.split(words), request_from_json(request))
    for words, request in yaml.safe_load(TABLE).items()
]


def test_every_request_has_a_command_line_in_the_table():
    assert {type(request) for _, request in MADE} == set(asked.REQUESTS)


def test_each_command_line_sends_its_request_and_prints_text_or_json(
    said: Said, handler: PlayedFamily
):
    for words, request in MADE:
        handler.asked.clear()
        code, printed, complaints = said(*words)
        hints = "To watch it: rookery sessions follow 38e52a1b\n" if "start" in words else ""
        assert (words, code, complaints) == (words, 0, hints)
        assert [each for each in handler.asked if type(each) is type(request)][-1] == request
        assert printed, words
        assert "\x1b" not in printed, words
        code, printed, _ = said(*words, "--json")
        assert (words, code, len(printed.splitlines())) == (words, 0, 1)
        json.loads(printed)


MISTAKES: list[tuple[list[str], str]] = [
    (["cancel", "ffff"], "No session begins with ffff. See rookery sessions."),
    (["cancel", "38e5"], "38e5 matches several sessions: 38e51f0c, 38e52a1b. Give more"),
    (["cancel", "38"], "'38' is too short for a session id; give at least 4 characters"),
    (["start", " "], "The text is missing."),
    (["start", "x", "--image", "none.png"], "none.png cannot be sent: No such file."),
    (["start", "x", "--versions", "3", "-m", "a", "-m", "b"], "There are 2 models for 3"),
    (["approve", "38e51", "--digest", "other"], "now asks for something else, so nothing"),
    (["approve", "38e52"], "Session 38e52a1b has nothing to approve."),
    (["answer", "38e52", "x"], "Session 38e52a1b has no open question. To send a message:"),
    (["merge", "x"], "No such worktree: x. See rookery sessions worktrees list."),
    (["merge", "38e52"], "works in the project itself, not in a worktree."),
    (["compare", "38e52"], "is not one of several versions."),
    (["comment", "38e51", "a.py", "x"], "a.py is not a line. Write PATH:LINE."),
    (["comment", "38e51", "a.py:1"], "Give each comment as PATH:LINE and its text."),
    (["revert", "38e51", "b.py"], "b.py has no changes."),
    (["revert", "38e51", "a.py", "--digest", "x"], "a.py changed since"),
    (["restore", "38e51", "--to", "1", "--no-files"], "Give --files, --conversation, or both."),
    (["switch", "38e51"], "Choose what to change"),
    (["worktrees", "import"], "Give either --branch or --folder."),
    (["worktrees", "remove", "38e51"], "Not interactive: use -y to approve."),
    (["worktrees", "agree", "d1"], "No script with the digest d1. See rookery sessions work"),
    (["settings", "nope"], "No such setting: nope."),
    (["do", "{"], "That is not JSON"),
    (["do", "[]"], "A request must be an object"),
    (["do", '{"kind": "fly"}'], "No such request: 'fly'."),
    (["do", '{"type": "list_sessions"}'], 'A request needs a "kind"'),
    (["do", '{"kind": "cancel_session"}'], "The request cancel_session is malformed"),
    (
        ["do", '{"kind": "start_sessions", "prompt": "Hi", "auto_aprove": false}'],
        "The request start_sessions has no field 'auto_aprove'; did you mean 'auto_approve'? "
        "Nothing was done.",
    ),
    (
        ["do", '{"kind": "start_sessions", "auto_approve": false, "auto_approve": true}'],
        "The request has the field 'auto_approve' twice. Nothing was done.",
    ),
    (["fly"], "No such command 'fly'"),
    (["wait", "38e52", "--timeout", "x"], "x is not a number of seconds."),
    (["worktrees", "agree"], "See rookery sessions worktrees agree --help."),
]
LOOKS = (
    *(asked.ListSessions, asked.ListQuestions, asked.ListWorktrees, asked.ReviewChanges),
    *(asked.PlanRemoval, asked.ReadSettings, asked.ListScripts),
)


def test_invalid_arguments_print_one_error_line_and_change_nothing(
    said: Said, handler: PlayedFamily, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for words, sentence in MISTAKES:
        code, _, complaint = said(*words)
        assert (words, code, len(complaint.splitlines())) == (words, 2, 1)
        assert complaint.startswith("Error: "), words
        assert sentence in complaint, words
        assert all(isinstance(each, LOOKS) for each in handler.asked), words


def test_a_refusal_by_the_manager_is_printed_unchanged(said: Said, handler: PlayedFamily):
    for refusal, code in (CommandRejected("It is too late."), 2), (StorageError("Full."), 9):
        handler.answers[asked.CancelSession] = refusal
        assert said("cancel", "38e51") == (code, "", f"Error: {refusal}\n")


def test_conflicts_are_reported_and_nothing_is_applied(said: Said, handler: PlayedFamily):
    handler.answers[asked.PlanApply] = rows.Plan(
        text="It does not fit.", conflicts=("a.py: both changed it",)
    )
    code, printed, _ = said("apply", "38e51")
    assert code == 1
    assert "conflict: a.py: both changed it" in printed
    assert not [each for each in handler.asked if isinstance(each, asked.ApplyWorktree)]


def test_a_dash_reads_the_prompt_from_standard_input(
    said: Said, handler: PlayedFamily, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    said("start", "-")
    assert replace(START, prompt="from a pipe\n") in handler.asked


def test_an_image_is_sent_unchanged(said: Said, handler: PlayedFamily):
    Path("dot.png").write_bytes(b64decode(DOT))
    assert said("start", "x", "--image", "dot.png")[0] == 0
    assert replace(START, prompt="x", images=(f"data:image/png;base64,{DOT}",)) in handler.asked


def test_the_auto_approve_setting_applies_to_new_sessions(
    said: Said, handler: PlayedFamily, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ROOKERY_MANAGER_AUTO_APPROVE", "false")
    said("start", "fix")
    assert replace(START, auto_approve=False) in handler.asked


def test_starting_a_queued_session_says_so(said: Said, handler: PlayedFamily):
    handler.answers[asked.ListSessions] = rows.Listing(
        overview=rows.Overview(counts=Counts()), sessions=(row(TWO, queued=True),)
    )
    _, printed, hints = said("start", "fix")
    assert printed == f"{TWO}\n", "scripts read the id from standard output"
    assert "38e52a1b is queued" in hints


def test_a_number_picks_a_suggested_answer(said: Said, handler: PlayedFamily):
    text = json.dumps({"question": "Which?", "suggest": [{"answer": "red"}, {"answer": "blue"}]})
    handler.answers[asked.ListQuestions] = (
        question(ask="followup", text=text, state=SessionState.WAITING_INPUT, title="", diff=""),
    )
    _, printed, _ = said("inbox")
    assert "  Which?\n  1. red\n  2. blue\n" in printed
    for number in "039":
        code, _, complaint = said("answer", "38e51", number)
        assert (number, code) == (number, 2)
        assert complaint == "Error: Choose 1 to 2. Nothing was answered.\n"
    assert not [each for each in handler.asked if isinstance(each, asked.SendWords)]
    said("answer", "38e51", "2")
    assert handler.asked[-1].text == "blue"


def test_answering_a_result_suggests_the_send_command(said: Said, handler: PlayedFamily):
    handler.answers[asked.ListQuestions] = (
        question(ask="completion_result", text="All is **done**.", state=SessionState.COMPLETED),
    )
    code, _, complaint = said("answer", "38e51", "3")
    assert code == 2
    assert "rookery sessions send 38e51f0c TEXT" in complaint
    assert not [each for each in handler.asked if isinstance(each, asked.SendWords)]
    assert said("inbox")[1].splitlines()[:2] == ["38e51f0c  Done  Fix it", "  All is **done**."]


def test_governance_choices_are_printed_as_they_are_typed(said: Said, handler: PlayedFamily):
    governance = IntentQuestion(
        intent_id="INT-001",
        scope=("src/**",),
        analysis="unbounded",
        pattern="docs/**",
        grant="docs/**",
        choices=("task", "expand", "halt"),
    )
    row = question(ask="command", text="make", where="in the sandbox", diff="", title="")
    handler.answers[asked.ListQuestions] = (replace(row, governance=governance),)
    assert said("inbox")[1].splitlines()[3:-2] == [
        "  in the sandbox",
        "  Scope of INT-001: src/**",
        "  What it writes is not known in advance, and it is not confined to the scope.",
        "  approve --choice task:  treat docs/** as in scope for the rest of this task",
        "  approve --choice expand:  add docs/** to the scope of INT-001",
        "  reject --halt:  reject, and stop the task",
    ]
    kept = replace(governance, sandboxed=True)
    handler.answers[asked.ListQuestions] = (replace(row, governance=kept),)
    assert (
        "is not known in advance, and the sandbox confines it to the scope.\n" in said("inbox")[1]
    )


def test_a_worktree_without_changes_has_nothing_to_apply(said: Said, handler: PlayedFamily):
    handler.answers[asked.PlanApply] = rows.Plan(text="agent/fix has no changes to apply.")
    assert said("apply", "38e51") == (0, "agent/fix has no changes to apply.\n", "")
    assert not [each for each in handler.asked if isinstance(each, asked.ApplyWorktree)]


def test_a_version_whose_worktree_was_removed_says_so(said: Said, handler: PlayedFamily):
    (version,) = ANSWERS[asked.CompareVersions]
    gone = replace(version, stats=rows.WorktreeStats(), note="The worktree w was removed.")
    handler.answers[asked.CompareVersions] = (gone,)
    _, printed, _ = said("compare", "38e51")
    assert "Done   m      removed  " in printed
    assert printed.splitlines()[-1] == "38e51f0c: The worktree w was removed."


def test_queue_without_a_subcommand_lists_messages(said: Said, handler: PlayedFamily):
    queued = row(
        undelivered=(
            rows.UndeliveredRow(number=1, text="more", state="failed", problem="It is gone."),
        )
    )
    handler.answers[asked.ListSessions] = rows.Listing(
        overview=rows.Overview(counts=Counts()), sessions=(queued,)
    )
    assert said("queue", "38e51")[1] == "1  failed  more  (It is gone.)\n"
    assert said("queue", "38e51") == said("queue", "list", "38e51") == said("mail", "38e51")
    assert "No session begins with ffff." in said("queue", "ffff")[2]


def test_a_question_is_printed_with_everything_it_would_approve(said: Said, handler: PlayedFamily):
    handler.answers[asked.ListQuestions] = (
        question(
            ask="command",
            text="rm -rf build\n  && true",
            where="in the sandbox",
            notes=("It removes files.",),
            rule="rm",
            diff="",
            governance=IntentQuestion(intent_id="INT-001", scope=("src/**",)),
        ),
    )
    _, printed, _ = said("approve", "38e51")
    assert printed.splitlines() == [
        "  Run this command:",
        "  rm -rf build",
        "    && true",
        "  in the sandbox",
        "  ! It removes files.",
        "  Scope of INT-001: src/**",
        "  --always allows: rm",
        "Approved.",
    ]


def test_the_oldest_question_is_answered_unless_another_is_named(said: Said, handler: PlayedFamily):
    handler.answers[asked.ListQuestions] = (
        question(ts=5, digest="d0"),
        question(ts=9, digest="d9"),
    )
    said("approve", "38e51")
    assert (handler.asked[-1].ask_ts, handler.asked[-1].digest) == (5, "d0")
    said("approve", "38e51", "--ts", "9")
    assert (handler.asked[-1].ask_ts, handler.asked[-1].digest) == (9, "d9")


def test_control_characters_from_models_and_files_are_not_printed(
    said: Said, handler: PlayedFamily
):
    evil = row(
        name=EVIL,
        branch=EVIL,
        model=EVIL,
        step=EVIL,
        workspace=EVIL,
        worktree_id="w-12345",
        group_id="g1",
        undelivered=(rows.UndeliveredRow(number=1, text=EVIL, problem=EVIL),),
    )
    overview = rows.Overview(counts=Counts(active=1), notices=(EVIL,))
    reported: dict[type[Any], Any] = {
        asked.ListSessions: rows.Listing(overview=overview, sessions=(evil,)),
        asked.ListQuestions: (
            question(name=EVIL, title=EVIL, diff=EVIL, where=EVIL, notes=(EVIL,), rule=EVIL),
        ),
        asked.StartSessions: rows.Started(session_ids=(TWO,), notes=(EVIL,), failed=(EVIL,)),
        asked.ListWorktrees: (replace(WORKTREE, branch=EVIL, path=EVIL),),
        asked.PlanApply: rows.Plan(text=EVIL, paths=(EVIL,), conflicts=(EVIL,)),
        asked.ListScripts: (rows.ScriptRow(name=EVIL, path=EVIL, text=EVIL, digest=EVIL),),
        asked.ListKept: (KeptWork(ref=EVIL, commit="", about=EVIL),),
        asked.ReadPullRequest: rows.PullRequestRow(number=1, title=EVIL, url=EVIL, review=EVIL),
        asked.ReadScriptLog: rows.ScriptLog(text=EVIL),
        asked.ReviewChanges: rows.Review(
            scope="branch", base="", stats=STATS, files=(replace(FILE, path=EVIL),), notes=(EVIL,)
        ),
        asked.ReadDiff: rows.FileDiff(
            file=FILE, note=EVIL, lines=(rows.DiffLine(kind="same", html=EVIL),)
        ),
        asked.ListCheckpoints: (rows.CheckpointRow(seq=1, ts=0, title=EVIL, paths=(EVIL,)),),
        asked.FindPaths: (FoundPath(path=EVIL),),
        asked.BlameFile: (BlamedLine(line=1, text=EVIL),),
        asked.ListBranches: (EVIL,),
        asked.CancelSession: rows.Done(notes=(EVIL,)),
        asked.MarkRead: CommandRejected(EVIL),
    }
    handler.answers.update(reported)
    for words in (
        *("list", "inbox", "show 38e51", "queue list 38e51", "start x", "approve 38e51"),
        *(
            "worktrees list",
            "worktrees scripts",
            "worktrees kept",
            "worktrees log 38e51",
            "pr show 38e51",
            "apply 38e51",
            "diff 38e51",
            "diff 38e51 a.py",
        ),
        *("checkpoints 38e51", "paths", "blame a.py", "branches", "cancel 38e51"),
        *("mark-read 38e51", "list --json", "inbox --json", 'do {"kind":"list_branches"}'),
    ):
        _, printed, complaint = said(*words.split(" ", 1 if words.startswith("do") else -1))
        assert "\x1b" not in printed + complaint, words
        assert "\u202e" not in printed + complaint, words
        assert "31m" in printed + complaint, words


def test_a_failure_without_a_question_is_in_the_inbox(said: Said, handler: PlayedFamily):
    handler.answers[asked.ListQuestions] = (
        question(TWO, ask="", text="It ended.", state=SessionState.ERROR, title="", diff=""),
    )
    assert said("inbox")[1].splitlines() == [
        "38e52a1b  Failed  Fix it",
        "  It ended.",
        "  rookery sessions retry 38e52a1b",
        "",
    ]
    handler.answers[asked.ListQuestions] = ()
    assert said("inbox")[1] == "The inbox is empty.\n"


def test_options_may_precede_the_command(said: Said, handler: PlayedFamily):
    assert json.loads(said("--json")[1])["overview"]
    assert json.loads(said("--json", "-w", ".", "worktrees", "list")[1])[0]["id"] == "w-12345"
    assert said("-w", "nowhere")[0] == 2


def test_the_list_shows_session_states(said: Said, handler: PlayedFamily):
    listed = (
        row(state=SessionState.STREAMING, unread=True, cost=0.5, model="m1", start_time=0),
        row(TWO, state=SessionState.CREATING, queued=True, archived=True, name="Other"),
    )
    handler.answers[asked.ListSessions] = rows.Listing(
        overview=rows.Overview(counts=Counts(active=2, attention=1)), sessions=listed
    )
    _, printed, _ = said()
    assert printed.splitlines() == [
        "ID        STATE      STARTED     MODEL     COST  NAME",
        "38e51f0c  Working *  1970-01-01  m1     $0.5000  Fix it",
        "38e52a1b  Queued     1970-01-01  -        $0.00  Other  [archived]",
        "2 active. 1 needs you: rookery sessions inbox",
    ]
    handler.answers[asked.ListSessions] = rows.Listing(
        overview=rows.Overview(counts=Counts(active=2, attention=2)), sessions=listed
    )
    assert said()[1].splitlines()[-1] == "2 active. 2 need you: rookery sessions inbox"
    assert json.loads(said("--json")[1])["sessions"][0]["state"] == "streaming"


def test_state_labels_match_the_page():
    page = (Path(__file__).parents[3] / "web/src/states.ts").read_text(encoding="utf-8")
    for state in SessionState:
        found = re.search(rf"  {state}: {{ words: \"([^\"]+)\"", page)
        assert found, state
        assert label_of(state) == found[1]


def test_an_empty_list_in_a_subfolder_names_the_project_with_sessions(
    said: Said, handler: PlayedFamily, monkeypatch: pytest.MonkeyPatch
):
    none = rows.Listing(overview=rows.Overview(counts=Counts()), sessions=())
    handler.answers[asked.ListSessions] = none
    assert said()[1].startswith("No sessions in this project. Start one: ")
    project = Path.cwd()
    inside = project / "deep" / "er"
    inside.mkdir(parents=True)
    for session_id in (ONE, TWO):
        keep(session_id, TaskOpened(text="Fix it", workspace=str(project)))
    monkeypatch.chdir(inside)
    assert said()[1] == (
        f"No sessions in this project; {project} has 2: rookery sessions -w {project}\n"
    )


def test_a_diff_is_printed_without_colours(said: Said):
    _, printed, _ = said("diff", "38e51", "a.py")
    assert printed.splitlines()[1:] == ["-    1 x < 1", "+    1 y"]


def test_a_group_without_a_command_prints_its_help(said: Said):
    code, _, complaint = said("worktrees")
    assert code == 2
    assert complaint.startswith("Usage: rookery sessions worktrees ")
    assert "See rookery" not in complaint


def test_every_command_has_help_that_fits_a_screen(capsys: pytest.CaptureFixture[str]):
    assert run(["sessions", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in command.commands:
        assert f"  {name} " in shown
