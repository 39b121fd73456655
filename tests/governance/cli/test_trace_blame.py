"""`rookery trace blame`: line, call, intent, criterion and approver, without guessing."""

import json
import subprocess
from pathlib import Path

import pytest

from rookery.errors import SettingsError
from rookery.governance.cli.common import TraceExit
from support.intent_files import SPEC_EXAMPLE
from support.traced_workspace import TASK, TracedWorkspace, trace

Captured = pytest.CaptureFixture[str]
JWT = "src/auth/jwt.py"
HUMAN = "import time\n"
WRITTEN = (
    "import time\n"
    "def verify(token: str) -> Claims:\n"
    "    claims = decode(token)\n"
    "    if claims.exp < utcnow():\n"
    "        raise Expired(claims)\n"
    "    return claims\n"
)
EDITED = WRITTEN.replace("raise Expired", "raise TooLate") + "def later():\n    pass\n"


@pytest.fixture
def work(home: Path) -> TracedWorkspace:
    """One line by Ada, five by an agent (one edited since), and two by no known author."""
    work = TracedWorkspace(Path.cwd())
    work.person_writes(JWT, HUMAN)
    work.commit("first")
    work.note(
        kind="decision",
        tool_name="apply_diff",
        tool_use_id="toolu_1",
        approval={"answer": "once", "by": "human", "text": "go on"},
    )
    work.agent_writes(JWT, WRITTEN)
    work.person_writes(JWT, EDITED)
    return work


def origins(capsys: Captured, *arguments: str) -> list[str]:
    capsys.readouterr()
    assert trace("blame", *arguments, "--json") == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    return [f"{line['origin']} {line['intent'] or line['author'] or ''}".strip() for line in lines]


RECORDED, ADA = "recorded INT-001", "version control Ada"


def test_every_line_says_where_it_comes_from(work: TracedWorkspace, capsys: Captured):
    assert trace("blame", JWT) == 0
    head, today = work.git("rev-parse", "--short=7", "HEAD"), work.git("log", "-1", "--format=%cs")
    assert capsys.readouterr().out.splitlines() == [
        f"  1  Ada                     {head}     {today}  import time",
        f"  2  INT-001  model-1        {TASK}      {today}  def verify(token: str) -> Claims:",
        f"  3  INT-001  model-1        {TASK}      {today}      claims = decode(token)",
        f"  4  INT-001  model-1        {TASK}      {today}      if claims.exp < utcnow():",
        f"  5  edited since            (INT-001)   {today}          raise TooLate(claims)",
        f"  6  INT-001  model-1        {TASK}      {today}      return claims",
        "  7  unknown                 -           -           def later():",
        "  8  unknown                 -           -               pass",
    ]
    assert trace("blame", f"{JWT}:3") == 0
    record = json.loads(work.lines[-1])
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"  call      apply_diff (toolu_1), record {record['id'][:8]}",
        "  intent    INT-001 JWT authentication migration",
        "  criterion Unit tests under tests/auth pass. "
        "(checked by: pytest -q tests/auth; never checked)",
        "  criterion When a token is expired, the API shall answer 401.",
        '  approval  approved by human (once): "go on"',
    ]
    assert trace("blame", "--porcelain", JWT, "-L", "1,2") == 0
    one, two = (row.split("\t") for row in capsys.readouterr().out.splitlines())
    assert one[:7] == ["1", "version control", "-", "-", "-", "-", "-"]
    assert one[7] == work.git("rev-parse", "HEAD")
    assert two == [
        *("2", "recorded", "INT-001", "example/model-1", TASK, "toolu_1", record["id"]),
        *("-", record["timestamp"], "def verify(token: str) -> Claims:"),
    ]


def test_each_criterion_shows_the_result_of_its_newest_check(
    work: TracedWorkspace, capsys: Captured
):
    def checked(outcome: str, exit_code: int, **more: str) -> str:
        check = {"text": "pytest -q tests/auth", "exit_code": exit_code}
        reported = {"kind": "command", "tool_name": "intent_check", "outcome": outcome, **more}
        work.note(**reported, command=check)
        assert trace("blame", "--why", JWT) == 0
        return capsys.readouterr().out

    day = json.loads(work.lines[-1])["timestamp"][:10]
    assert f"tests/auth; failed on {day}, exit 1)" in checked("failure", 1)
    assert f"tests/auth; passed on {day})" in checked("success", 0)
    other = checked("failure", 1, intent_id="INT-002")
    assert f"tests/auth; passed on {day})" in other, "a check of another intent does not count"
    assert trace("blame", f"{JWT}:3", "--json") == 0
    (line,) = json.loads(capsys.readouterr().out)["lines"]
    assert [each["held"] for each in line["why"]["criteria"]] == [f"passed on {day}", None]


APPROVALS: dict[str, dict[str, object]] = {
    "approved by rule (in scope)": {},
    "approved by policy (always)": {"approval": {"answer": "always", "by": "policy"}},
    "no approval is recorded": {"scope": "unknown_approved"},
}


def test_the_approver_is_shown_as_recorded(home: Path, capsys: Captured):
    work = TracedWorkspace(Path.cwd())
    for number, (said, more) in enumerate(APPROVALS.items()):
        work.agent_writes(f"src/auth/{number}.py", f"{WRITTEN}number_of_it = {number}\n", **more)
        assert trace("blame", f"src/auth/{number}.py:7") == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"  approval  {said}"


def test_a_changed_or_removed_intent_is_reported(work: TracedWorkspace, capsys: Captured):
    work.layout.intent_file.write_text(SPEC_EXAMPLE.replace("revision: 3", "revision: 4"))
    assert trace("blame", "--why", JWT, "-L", "2,4") == 0
    said = capsys.readouterr().out
    assert said.count("migration (it was revision 3, and is 4 now)") == 1
    work.layout.intent_file.write_text("schema_version: 1\nactive_intents: []\n")
    assert trace("blame", f"{JWT}:2") == 0
    assert "INT-001 (it was removed)" in capsys.readouterr().out


def test_lines_that_a_person_moved_or_reformatted_stay_the_agents(
    work: TracedWorkspace, capsys: Captured
):
    body = WRITTEN.splitlines(keepends=True)[1:]
    work.person_writes("src/other.py", "# helpers\n" + "".join(body))
    assert origins(capsys, "src/other.py") == ["unknown", *[RECORDED] * 5]
    work.person_writes(JWT, WRITTEN.replace("    ", "  "))
    work.person_writes("src/part.py", "def check(claims):\n" + "".join(body[2:4]))
    work.commit("formatted and moved")
    assert origins(capsys, JWT) == [ADA, *[RECORDED] * 5]
    assert origins(capsys, "src/part.py") == [ADA, RECORDED, RECORDED]
    work.agent_writes("src/auth/twin.py", "".join(body), intent_id="INT-003")
    work.person_writes("src/again.py", "".join(body))
    assert origins(capsys, "src/again.py") == ["unknown"] * 5, "two intents wrote it alike"


def test_origins_are_unknown_without_git_and_for_denied_changes(home: Path, capsys: Captured):
    work = TracedWorkspace(Path.cwd())
    work.person_writes("a.py", HUMAN)
    assert origins(capsys, "a.py") == ["unknown"]
    work.agent_writes(JWT, WRITTEN, kind="blocked", outcome="denied")
    assert origins(capsys, JWT) == ["unknown"] * 6


def test_the_note_of_a_commit_is_used_if_the_ledger_is_gone(
    work: TracedWorkspace, capsys: Captured
):
    work.commit("second")
    assert trace("finalize") == 0
    work.active.unlink()
    assert origins(capsys, JWT) == [ADA, *[RECORDED] * 3, ADA, RECORDED, ADA, ADA]
    assert trace("blame", f"{JWT}:3") == 0
    assert "from the note of its commit" in capsys.readouterr().out


def test_a_file_in_a_repository_above_is_found(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    top = TracedWorkspace(Path.cwd())
    work = TracedWorkspace(Path.cwd() / "part")
    work.person_writes(JWT, HUMAN)
    top.commit()
    work.agent_writes(JWT, WRITTEN)
    monkeypatch.chdir(work.root / "src")
    assert origins(capsys, "auth/jwt.py") == [ADA, *[RECORDED] * 5]
    top.commit()
    assert trace("finalize") == 0
    assert origins(capsys, "auth/jwt.py") == [ADA, *[RECORDED] * 5]


def test_the_repository_can_make_git_run_nothing(
    work: TracedWorkspace, capsys: Captured, tmp_path: Path
):
    trap, mark = tmp_path / "trap.sh", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    for name in (
        "filter.x.clean",
        "diff.x.textconv",
        "core.fsmonitor",
        "core.pager",
        "gpg.program",
    ):
        work.git("config", name, str(trap))
    (work.root / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("reference-transaction", "post-index-change"):
        subprocess.run(["cp", trap, work.root / ".git" / "hooks" / hook], check=True)
    (work.root / ".git" / "info" / "attributes").write_text("*.py filter=x diff=x\n")
    assert origins(capsys, JWT)[0] == ADA
    assert trace("finalize") == 0
    assert not mark.exists()
    work.git("blame", JWT)
    assert mark.exists(), "the trap is one"


def test_a_missing_file_or_line_is_reported_as_not_found(
    work: TracedWorkspace, tmp_path: Path, capsys: Captured
):
    assert trace("blame", "src/none.py") == TraceExit.NOT_FOUND
    assert trace("blame", f"{JWT}:99") == TraceExit.NOT_FOUND
    assert "has only 8 lines." in capsys.readouterr().err
    (work.root / "one.txt").write_text("one\n", encoding="utf-8")
    assert trace("blame", "one.txt:2") == TraceExit.NOT_FOUND
    assert "has only 1 line." in capsys.readouterr().err
    (work.root / "picture").write_bytes(b"\x89\0\0")
    assert trace("blame", "picture") == TraceExit.FINDINGS
    (tmp_path / "outside.py").write_text("x = 1\n", encoding="utf-8")
    for wrong in (["../outside.py"], [JWT, "-L", "9"], [JWT, "-L", "5,2"]):
        with pytest.raises(SettingsError):
            trace("blame", *wrong)
