import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CheckpointSaved,
    CommandDetached,
    CommandEnded,
    CompletionOffered,
    Fact,
    FilesChanged,
    FilesRestored,
    ModeSwitched,
    Noted,
    RequestFailed,
    RequestStarted,
    Rewound,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.limits import FailureKind
from rookery.errors import StorageError
from rookery.platform.user_folders import Places, find_places
from rookery.storage.sessions import TaskStore
from rookery.storage.summary import words_of
from rookery.storage.verify import verify
from support.each_row import each_row
from support.journal_writer import numbered, sample_facts, store, write_all
from support.timeouts import patience

JOURNAL = "journal.jsonl"
OPENED = TaskOpened(text="Go")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places({"ROOKERY_HOME": str(tmp_path / "home")})


@pytest.fixture
def tasks(places: Places) -> TaskStore:
    return TaskStore(places)


def keep(tasks: TaskStore, task_id: str, facts: list[Fact]) -> None:
    journal = tasks.create(task_id)
    write_all(journal, facts)
    journal.close()


@pytest.mark.parametrize(
    ("lines", "damage"),
    [
        pytest.param(
            [b'{"seq":1,"sub":0,"ts":9223372036854775808,"kind":"task_opened","text":"Go"}'],
            "out of range",
            id="time",
        ),
        pytest.param(
            [b'{"seq":1,"sub":0,"ts":1,"kind":"x","y":' + b"[" * 5000 + b"]" * 5000 + b"}"],
            "nested too deeply",
            id="nesting",
        ),
        pytest.param(
            [
                b'{"seq":%d,"sub":0,"ts":%d,"kind":"assistant_spoke","request_id":"r","blocks":[],'
                b'"usage":{"tokens_in":18446744073709551615}}' % (number, number)
                for number in (1, 2)
            ],
            "",
            id="tokens",
        ),
        pytest.param(None, "not a regular file", id="pipe"),
    ],
)
def test_an_odd_journal_does_not_stop_other_tasks_being_listed(
    tasks: TaskStore, lines: list[bytes] | None, damage: str
):
    keep(tasks, "good", [OPENED])
    folder = tasks.folder("odd")
    folder.mkdir(mode=0o700)
    if lines is None:
        os.mkfifo(folder / JOURNAL)
    else:
        sealed = (b"%b\t%08x\n" % (line, crc32(line)) for line in lines)
        (folder / JOURNAL).write_bytes(b"".join(sealed))
    with patience():
        listed = {task.id: task.damage for task in tasks.list()}
        assert listed["good"] == ""
        assert damage in listed["odd"]
        assert [found.task.id for found in tasks.search("Go")][-1:] == ["good"]
        if lines is None:
            with pytest.raises(StorageError, match="not a regular file"):
                list(tasks.read("odd"))
            with pytest.raises(StorageError, match="not a regular file"):
                tasks.open("odd")
            with pytest.raises(StorageError, match="not a regular file"):
                tasks.create("odd")


def test_a_task_exists_from_its_first_event(tasks: TaskStore):
    assert not tasks.exists("t1")
    journal = tasks.create("t1")
    assert not tasks.exists("t1")
    write_all(journal, [OPENED])
    assert tasks.exists("t1")
    journal.close()
    with pytest.raises(StorageError, match="Session t1 already exists"):
        tasks.create("t1")
    with pytest.raises(StorageError, match="No such session: t2"):
        tasks.open("t2")


@pytest.mark.parametrize(
    "task_id",
    ["", ".", "..", "../t", "a/b", "/etc", "a\n", "a\0", "ä", "x" * 65, ".deleted-t", "a b"],
)
def test_an_id_that_could_be_a_path_is_refused_everywhere(task_id: str, tasks: TaskStore):
    for attempt in (tasks.create, tasks.open, tasks.read, tasks.exists, tasks.delete, tasks.folder):
        with pytest.raises(StorageError, match="is not a session id"):
            attempt(task_id)


@pytest.mark.parametrize("task_id", ["0196f6e2-7d31-7cc2-9a3f-0d5f2a1b3c4d", "a", "A_-9" * 16])
def test_ids_made_by_clients_are_accepted(task_id: str, tasks: TaskStore):
    keep(tasks, task_id, [OPENED])
    assert [task.id for task in tasks.list()] == [task_id]


# ── lists ───────────────────────────────────────────────────────────────────────────────


def test_a_summary_has_title_mode_times_and_cost(tasks: TaskStore):
    keep(tasks, "t1", [*sample_facts("/here"), ModeSwitched(mode="ask")])
    (task,) = tasks.list()
    events = numbered([*sample_facts(), ModeSwitched(mode="ask")])
    assert (task.id, task.title, task.workspace, task.mode) == (
        "t1",
        "Fix the parser",
        "/here",
        "ask",
    )
    assert (task.created, task.updated) == (events[0].ts, events[-1].ts)
    assert (task.tokens_in, task.tokens_out, task.cost) == (300, 30, 0.25)
    assert (task.status, task.parent, task.damage) == ("completed", None, "")


REQUEST = RequestStarted(request_id="r", model="m")
DONE = CompletionOffered(result="done")
PLAN = CompletionOffered(result="- [ ] Write a.txt", plan="plan.md")


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ([OPENED], "open"),
        ([OPENED, REQUEST, DONE], "completed"),
        ([OPENED, REQUEST, DONE, TaskClosed()], "completed"),
        ([OPENED, REQUEST, DONE, TaskClosed(), TaskReopened()], "completed"),
        ([OPENED, REQUEST, DONE, TaskReopened(), REQUEST], "open"),
        ([OPENED, REQUEST, DONE, Rewound(to=1)], "open"),
        ([OPENED, REQUEST, PLAN], "waiting"),
        ([OPENED, REQUEST, PLAN, TaskClosed()], "waiting"),
        ([OPENED, REQUEST, PLAN, TaskReopened(), REQUEST], "open"),
        ([OPENED, TaskClosed()], "closed"),
        ([OPENED, TaskClosed(), TaskReopened()], "open"),
        ([OPENED, TaskFailed(message="bug")], "failed"),
    ],
)
def test_a_status_follows_from_the_facts(facts: list[Fact], status: str, tasks: TaskStore):
    keep(tasks, "t", facts)
    assert [task.status for task in tasks.list()] == [status]


def test_a_task_has_no_cost_until_one_is_reported(tasks: TaskStore):
    failed = RequestFailed(request_id="r", error=FailureKind.BUSY, message="busy")
    spoke = AssistantSpoke(request_id="r", blocks=(), usage=Usage(tokens_in=5, cost=0.5))
    keep(tasks, "t1", [OPENED, REQUEST, failed])
    assert [task.cost for task in tasks.list()] == [None]
    journal = tasks.open("t1")
    write_all(journal, [spoke, spoke], journal.read().events[-1])
    journal.close()
    assert [(task.cost, task.tokens_in) for task in tasks.list()] == [(1.0, 10)]


def test_tasks_are_listed_newest_first_and_by_workspace(tasks: TaskStore):
    for number, workspace in enumerate(["/a", "/b", "/a"], start=1):
        facts = [TaskOpened(text="Go", workspace=workspace), *[TaskReopened()] * (5 - number)]
        keep(tasks, f"t{number}", facts)
    assert [task.id for task in tasks.list()] == ["t1", "t2", "t3"]
    assert [task.id for task in tasks.list("/a")] == ["t1", "t3"]
    assert tasks.list("/c") == []


def test_no_tasks_at_all_is_an_empty_list(tasks: TaskStore, tmp_path: Path):
    assert tasks.list() == []
    assert tasks.search("anything") == []


def test_a_damaged_task_is_marked_and_harms_no_other(tasks: TaskStore, places: Places):
    for name in ("good", "torn", "bad", "odd", "begun", "strange"):
        keep(tasks, name, sample_facts())
    torn, bad = (places.tasks / name / JOURNAL for name in ("torn", "bad"))
    torn.write_bytes(torn.read_bytes()[:-5])
    bad.write_bytes(b"nonsense\n" + bad.read_bytes())
    (places.tasks / "odd" / JOURNAL).unlink()
    (places.tasks / "odd" / JOURNAL).mkdir()
    (places.tasks / "begun" / JOURNAL).write_bytes(b'{"seq":1,')
    (places.tasks / "strange" / JOURNAL).unlink()
    (places.tasks / "a file").write_text("")
    (places.tasks / "link").symlink_to(places.tasks / "good")
    found = {task.id: task.damage for task in tasks.list()}
    assert found.pop("good") == ""
    assert found == {
        "torn": "Its journal is damaged after event 14.",
        "bad": "Its journal is damaged after event 0.",
        "odd": "Its journal cannot be read (Is a directory).",
    }
    assert {task.id: task.title for task in tasks.list()}["torn"] == "Fix the parser"


def test_a_task_being_written_can_be_listed_and_read(tasks: TaskStore):
    journal = tasks.create("t1")
    events = write_all(journal, [OPENED])
    assert [task.updated for task in tasks.list()] == [events[-1].ts]
    events += write_all(journal, [UserSpoke(message_id="m", text="more")], events[-1])
    assert [task.updated for task in tasks.list()] == [events[-1].ts]
    assert list(tasks.read("t1")) == events
    journal.close()


# ── search ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        *("Parser", "tests fixed", "mind the gap", "make", '"make test"', "ünïcode", "pars"),
        *("arse", "a.txt OR b", "修复", "50%", "->"),
    ],
)
def test_messages_and_actions_can_be_searched(words: str, tasks: TaskStore):
    said = UserSpoke(message_id="m9", text="look at a.txt or b: 请修复它 by 50% -> now")
    keep(tasks, "t1", [*sample_facts(), said])
    keep(tasks, "t2", [OPENED])
    assert [found.task.id for found in tasks.search(words)] == ["t1"]


@pytest.mark.parametrize("words", ["", " ", "parser banana", "g%p", "g_p", '"', "\\"])
def test_missing_words_are_not_found(words: str, tasks: TaskStore):
    keep(tasks, "t1", sample_facts())
    assert tasks.search(words) == []


FOUND_IN: list[Fact] = [
    TaskOpened(text="a needle"),
    UserSpoke(message_id="m", text="a needle"),
    Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="a needle"),
    AssistantSpoke(request_id="r", blocks=(Text(text="a needle"),)),
    ToolStarted(call_id="c", tool="t", title="Use a needle"),
    ToolStarted(call_id="c", tool="t", title="Run", command="needle --thread"),
    ToolFinished(call_id="c", text="a needle"),
    ToolFinished(call_id="c", text="a needle" + " hay" * 50_000),
    CompletionOffered(result="a needle"),
]


@pytest.mark.parametrize("fact", FOUND_IN, ids=lambda fact: type(fact).__name__)
def test_every_fact_with_text_is_searched(fact: Fact, tasks: TaskStore):
    facts = [fact] if isinstance(fact, TaskOpened) else [OPENED, fact]
    keep(tasks, "t1", facts)
    (found,) = tasks.search("needle")
    assert "needle" in found.snippet


def test_a_result_is_searched_up_to_a_limit(tasks: TaskStore):
    keep(tasks, "t1", [OPENED, ToolFinished(call_id="c", text="hay " * 50_000 + "needle")])
    assert tasks.search("needle") == []
    assert [found.task.id for found in tasks.search("hay")] == ["t1"]


def test_a_snippet_shows_the_words_in_their_surroundings(tasks: TaskStore):
    keep(tasks, "t1", [TaskOpened(text="before " * 50 + "the\n needle " + "after " * 50)])
    (found,) = tasks.search("NEEDLE")
    assert "before the needle after" in found.snippet
    assert found.snippet.startswith("…")
    assert found.snippet.endswith("…")
    assert len(found.snippet) <= 162


def test_a_search_can_be_limited_to_a_workspace(tasks: TaskStore):
    keep(tasks, "t1", [TaskOpened(text="needle", workspace="/a")])
    keep(tasks, "t2", [TaskOpened(text="needle", workspace="/b")])
    assert [found.task.id for found in tasks.search("needle", "/b")] == ["t2"]


# ── deleting ────────────────────────────────────────────────────────────────────────────


def everything_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_deleting_is_complete(tasks: TaskStore, places: Places):
    keep(tasks, "t1", [TaskOpened(text="a xylophone secret"), *sample_facts()[1:]])
    keep(tasks, "t2", [TaskOpened(text="something else")])
    assert [found.task.id for found in tasks.search("xylophone")] == ["t1"]
    assert b"xylophone" in everything_below(places.data.parent)
    with closing(sqlite3.connect(places.index_file)) as somebody_else:
        somebody_else.execute("SELECT count(*) FROM tasks").fetchone()
        tasks.delete("t1")
        assert b"xylophone" not in everything_below(places.data.parent)
    assert not tasks.exists("t1")
    assert [task.id for task in tasks.list()] == ["t2"]
    assert [path.name for path in places.tasks.iterdir()] == ["t2"]
    with pytest.raises(StorageError, match="No such session: t1"):
        tasks.delete("t1")


def test_a_task_in_use_is_not_deleted(tasks: TaskStore):
    journal = tasks.create("t1")
    write_all(journal, [OPENED])
    with pytest.raises(StorageError, match=f"process {os.getpid()}"):
        tasks.delete("t1")
    journal.close()
    assert tasks.exists("t1")


DELETE = """
import os, sys
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
TaskStore(find_places(os.environ)).delete("t1")
"""


@pytest.mark.parametrize("point", ["delete.marked", "delete.removed"])
def test_a_deletion_that_was_killed_is_finished_at_the_next_start(
    point: str, tasks: TaskStore, places: Places
):
    keep(tasks, "t1", [TaskOpened(text="a xylophone secret")])
    keep(tasks, "t2", [OPENED])
    tasks.list()
    environ = {
        **os.environ,
        "ROOKERY_HOME": str(places.data.parent),
        "ROOKERY_KILLPOINT": point,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    child = subprocess.run([sys.executable, "-c", DELETE], env=environ)
    assert child.returncode == -signal.SIGKILL
    assert not tasks.exists("t1")
    assert [task.id for task in tasks.list()] == ["t2"]
    tasks.sweep()
    assert [path.name for path in places.tasks.iterdir()] == ["t2"]
    assert b"xylophone" not in everything_below(places.data.parent)
    tasks.sweep()
    assert tasks.exists("t2")


# ── verify ──────────────────────────────────────────────────────────────────────────────


def test_a_sound_task_has_no_problems(tmp_path: Path):
    store(tmp_path / "t", sample_facts())
    assert verify(tmp_path / "t") == []


def without(kind: type[Fact]) -> list[Fact]:
    return [fact for fact in sample_facts() if not isinstance(fact, kind)]


def doubled(index: int) -> list[Fact]:
    facts = sample_facts()
    return [*facts[: index + 1], *facts[index:]]


def with_files(*facts: Fact) -> list[Fact]:
    """A task with one call before which files were saved, and then these facts."""
    make = ToolCall(id="c1", name="execute_command", arguments={"command": "make"})
    return [
        OPENED,
        RequestStarted(request_id="r1", model="m"),
        AssistantSpoke(request_id="r1", blocks=(make,)),
        CheckpointSaved(id="one", call_id="c1"),
        ToolStarted(call_id="c1", tool="execute_command", title="Run make", command="make"),
        CommandDetached(call_id="c1", command="make", artifact="a"),
        ToolFinished(call_id="c1", text="Still running."),
        *facts,
    ]


CHANGED = FilesChanged(call_id="c1", before="one", after="two", since=4)
SOUND = {
    "a change": [CHANGED],
    "another change": [CHANGED, FilesChanged(call_id="c1", before="two", after="three", since=8)],
    "a command's end": [CommandEnded(call_id="c1", text="ended"), CHANGED],
    "a change of a call that was rewound": [Rewound(to=2), CHANGED],
    "a restore": [CHANGED, FilesRestored(to=3, before="two", after="one")],
    "a restore and a rewind after the end": [
        CHANGED,
        TaskClosed(),
        Noted(text="Well."),
        FilesRestored(to=3, before="two", after="one"),
        Rewound(to=1),
        TaskReopened(),
    ],
}


@pytest.mark.parametrize("facts", SOUND.values(), ids=SOUND.keys())
def test_verify_accepts_file_changes_of_calls(facts: list[Fact], tmp_path: Path):
    store(tmp_path / "t", with_files(*facts))
    assert verify(tmp_path / "t") == []


UNSOUND = {
    "no start": (without(ToolStarted), "says call c1 was carried out, but it never started"),
    "two outcomes": (doubled(8), "ends call c1 a second time"),
    "run again": (doubled(5), "starts call c1 a second time"),
    "foreign call": (without(AssistantSpoke), "c1, which the model did not make"),
    "no ask": (without(type(sample_facts()[3])), "answers q1, which was never asked"),
    "two answers": (doubled(4), "answers q1 a second time"),
    "open request": (doubled(1), "starts a request while another is open"),
    "no request": (without(RequestStarted), "ends request r1, which was never started"),
    "no opening": (sample_facts()[1:], "does not open the session"),
    "two openings": (doubled(0), "opens the session again"),
    "rewound too far": ([OPENED, Rewound(to=7)], "rewinds to event 7"),
    "restored too far": (
        with_files(FilesRestored(to=8, before="one", after="two")),
        "restores files as of event 8, which is not before it",
    ),
    "checkpoint of a foreign call": (
        [OPENED, CheckpointSaved(id="one", call_id="c9")],
        "about call c9, which the model did not make",
    ),
    "change by a foreign call": (
        with_files(FilesChanged(call_id="c9", before="one", after="two", since=4)),
        "about call c9, which the model did not make",
    ),
    "change since nothing was saved": (
        with_files(FilesChanged(call_id="c1", before="one", after="two", since=5)),
        "since event 5, which did not save them",
    ),
    "change from another checkpoint": (
        with_files(FilesChanged(call_id="c1", before="zero", after="two", since=4)),
        "since event 4, which did not save them",
    ),
    "command that did not run on": (
        with_files(*[CommandEnded(call_id="c1", text="ended")] * 2),
        "ends an unknown background command of call c1",
    ),
    "after the end": (
        with_files(TaskClosed(), UserSpoke(message_id="m", text="wait")),
        "comes after the end of the session",
    ),
    "two ends": (with_files(TaskClosed(), TaskClosed()), "closes the session a second time"),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_verify_names_what_is_wrong(case: str, tmp_path: Path):
    facts, problem = UNSOUND[case]
    store(tmp_path / "t", facts)
    assert any(problem in found for found in verify(tmp_path / "t"))


def test_a_call_that_changes_nothing_may_be_run_again(tmp_path: Path):
    facts = sample_facts()
    store(tmp_path / "t", [*facts[:12], *facts[11:]])
    assert verify(tmp_path / "t") == []


def test_verify_names_what_is_wrong_on_disk(tmp_path: Path):
    folder = tmp_path / "t"
    store(folder, sample_facts())
    (blob,) = (folder / "blobs").iterdir()
    blob.write_text("other")
    blob.chmod(0o644)
    whole = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(whole[:-3])
    problems = verify(folder)
    assert "The output of event 9 is missing or damaged." in problems
    assert f"{blob.name} can be reached by other users." in problems
    assert any("Line 15, at byte" in problem and "not complete" in problem for problem in problems)
    (folder / JOURNAL).write_bytes(whole.replace(b"mind the gap", b"mind the cap"))
    assert any("its checksum does not match" in problem for problem in verify(folder))
    lines = whole.splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(b"".join(lines[:3] + lines[4:]))
    assert any("it has event 5 instead of 4" in problem for problem in verify(folder))
    (folder / JOURNAL).write_bytes(b"")
    assert "The journal is empty: the session never started." in verify(folder)
    (folder / JOURNAL).unlink()
    assert verify(folder) == ["The journal cannot be read (No such file or directory)."]


@each_row(
    ("text", "words"),
    [
        ('{"tool": "readFile", "path": "a.py", "reason": "look"}', "a.py\nlook"),
        ('{"question": "Which?", "suggest": [{"answer": "this", "mode": "code"}]}', "Which?\nthis"),
        ("rm -rf build", "rm -rf build"),
        ("{ echo hi; }", "{ echo hi; }"),
    ],
)
def test_questions_are_searched_as_text_without_json(text: str, words: str):
    assert words_of(Asked(ask_id="a", ask=AskKind.TOOL, title="Do it", text=text)) == (
        f"Do it\n{words}"
    )
