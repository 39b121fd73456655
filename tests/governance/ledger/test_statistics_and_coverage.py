"""What a ledger amounts to, and which intents it covers."""

from typing import Any

from rookery.governance.intents.intent import Criterion, Intent, IntentStatus, Policy, Verify
from rookery.governance.intents.intent_map import Coverage, coverage
from rookery.governance.ledger.records import FileHash, LedgerEntry, Link, TracedFile, build_record
from rookery.governance.ledger.statistics import format_statistics, is_by_product, statistics
from rookery.governance.ledger.traced import TracedRecord, parse_record
from support.each_row import each_row
from support.sample_ledgers import WRITER, change

LINK = Link(stream="01JMZ3V9K6T2Q8R4W0XYABCDEF", seq=0, prev=None)


def read(entry: LedgerEntry) -> TracedRecord:
    return parse_record(build_record(entry, id="id", timestamp="t", writer=WRITER, link=LINK))


def refused(code: str) -> TracedRecord:
    error = {"code": code, "type": "x"}
    return read(LedgerEntry(kind="blocked", task_id="t", outcome="blocked", error=error))


def test_the_figures_of_a_ledger():
    records = [
        *(read(change("t", number)) for number in range(3)),
        read(change("t", 1, intent_id="INT-003", model_id="b/c")),
        read(LedgerEntry(kind="command", task_id="t", outcome="success")),
        *map(refused, ["REQ-001", "REQ-003", "REQ-003"]),
        read(LedgerEntry(kind="decision", task_id="t", approval={"answer": "once", "by": "human"})),
        read(LedgerEntry(kind="decision", task_id="t", approval={"answer": "no", "by": "human"})),
        read(LedgerEntry(kind="stream_start", task_id="t")),
    ]
    assert format_statistics(statistics(records)).splitlines() == [
        "calls       8     mutations 4   commands 1   refused 3 (37.5 %)   approvals 1",
        "by intent   INT-001 3 changing calls   INT-003 1 changing call",
        "refusals    REQ-003 2   REQ-001 1",
        "lines       +8 -0   by model: example/model-1 75 %, b/c 25 %",
        "hot files   src/auth/café_1.py 2   src/auth/café_0.py 1   src/auth/café_2.py 1",
    ]


def test_an_empty_ledger_has_figures_too():
    assert "refused 0   approvals 0" in format_statistics(statistics([]))


def changed(path: str, after: str | None, intent: str = "INT-1", **more: Any) -> TracedRecord:
    held = FileHash(sha256=after, size=1) if after else None
    file = TracedFile(path=path, op="modify" if after else "delete", after=held)
    format_statistics = {"kind": "mutation", "task_id": "t", "outcome": "success", "intent_rev": 2}
    return read(LedgerEntry(**{**format_statistics, "intent_id": intent, "files": (file,), **more}))


def rewound(files: dict[str, str], *removed: str) -> TracedRecord:
    """The record of a governed task whose files were restored."""
    format_statistics = tuple(
        TracedFile(path=path, op="create", after=FileHash(sha256=mark, size=1))
        for path, mark in files.items()
    )
    entry = LedgerEntry(
        kind="rewind",
        task_id="t",
        intent_id="INT-1",
        intent_rev=2,
        outcome="success",
        files=format_statistics,
        more={"removed": list(removed)},
    )
    return read(entry)


CRITERION = Criterion(text="It works.", verify=Verify(command="pytest"))
INTENT = Intent(
    id="INT-1",
    status=IntentStatus.IN_PROGRESS,
    revision=2,
    acceptance_criteria=(CRITERION,),
)
CHECKED = read(
    LedgerEntry(
        kind="command",
        task_id="t",
        intent_id="INT-1",
        intent_rev=2,
        tool_name="intent_check",
        tool_use_id="check-INT-1-A1",
        outcome="success",
    )
)
A, RETURNED = changed("a", "1"), [changed("a", "1"), rewound({"a": "0"})]
OTHERS = changed("a", "2", intent="INT-2")
REWORDED = changed("a", "1", intent_rev=None, intent_digest="other")
STATES = {
    "covered": ([A], {"a": "1"}),
    "unverified": ([A], {"a": "1"}),
    "outdated": ([changed("a", "1", intent_rev=1)], {"a": "1"}),
    "outdated by digest": ([REWORDED], {"a": "1"}),
    "uncovered": ([], {}),
    "uncovered by a refusal": ([changed("a", "1", outcome="denied")], {}),
    "drifted": ([A, changed("b", "2")], {"a": "1", "b": "9"}),
    "drifted by deletion": ([A], {}),
    "drifted by return": ([changed("a", None)], {"a": "1"}),
    "covered, file gone as recorded": ([changed("a", None)], {}),
    "covered, file put back": (RETURNED, {"a": "0"}),
    "covered, file taken away": ([A, rewound({}, "a")], {}),
    "drifted since it was put back": (RETURNED, {"a": "1"}),
    "covered, drift of another": ([A, OTHERS], {"a": "3"}),
}


def covered(
    intents: list[Intent],
    records: list[TracedRecord],
    hashes: dict[str, str],
    *,
    verified: bool = True,
) -> Coverage:
    checks = [CHECKED] if verified else []
    return coverage(intents, Policy(), [*records, *checks], hash_of=hashes.get)


@each_row("name", STATES)
def test_the_state_of_an_intent(name: str):
    records, hashes = STATES[name]
    found = covered([INTENT, Intent(id="INT-2")], records, hashes, verified=name != "unverified")
    [mine] = [each for each in found.intents if each.intent_id == "INT-1"]
    assert mine.state == name.split()[0].rstrip(",")


def test_files_under_no_intent_are_orphans():
    records = [changed("a", "1", intent=""), changed("b", "1", intent="INT-9"), changed("c", "1")]
    found = covered([INTENT], records, {"a": "1", "b": "1", "c": "2"})
    assert found.orphans == ("a", "b")
    assert found.drifted == ("c",)


def test_intents_that_were_never_begun_are_not_asked_for():
    assert covered([Intent(id="INT-1")], [], {}).intents == ()


@each_row(
    "path",
    [
        "__pycache__/app.cpython-311.pyc",
        "src/app/__pycache__/x",
        "src/old.pyc",
        ".pytest_cache/v/cache/lastfailed",
        ".mypy_cache",
        "web/.ruff_cache/0.4/1",
        ".benchmarks/a.json",
        "node_modules/left-pad/index.js",
    ],
)
def test_what_tools_leave_behind_is_a_by_product(path: str):
    assert is_by_product(path)


@each_row(
    "path", ["", ".", "src/app.py", "src/pycache.py", "docs/node_modules.md", "src/a.pyc.txt"]
)
def test_everything_else_is_work(path: str):
    assert not is_by_product(path)
