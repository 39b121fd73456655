import json
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rookery.core.asks import Decision
from rookery.errors import RookeryError
from rookery.governance.intents.leases import Leases
from rookery.governance.layout import Layout, find_layout, init, nested_roots
from rookery.governance.scope.project_rules import (
    ignore_pattern_fault,
    opinion,
    parse_intent_ignore,
    protection_lookup,
    read_command_policy,
    read_intent_ignore,
)
from support.each_row import each_row
from support.intent_files import NOW, SPEC_EXAMPLE, laid_out
from support.warm_programs import run_program

KNOWN = ["INT-001", "INT-007"]


def ignored(text: str, now: datetime = NOW):
    return parse_intent_ignore(text, KNOWN, now)


@each_row(
    ("text", "exempt"),
    [
        ("INT-007", True),
        ("intent:INT-007", True),
        ("INT-007   \r", True),
        ("# INT-007", False),
        ("int-007", False),
        ("INT-001", False),
        ("INT-007 until=2026-12-31", True),
        ("INT-007 until=2026-02-21", True),
        ("INT-007 until=2026-02-20", False),
        ("INT-007 until=soon", False),
        ("path:INT-007", False),
    ],
)
def test_an_intent_is_exempt_by_its_line(text: str, exempt: bool):
    assert bool(ignored(text).for_intent("INT-007", NOW)) is exempt


def test_an_expired_exemption_is_warned_about():
    found = ignored("INT-007 until=2026-02-19\n")
    assert [(each.code, each.line) for each in found.problems] == [("W310", 1)]


@each_row(
    ("text", "path", "exempt"),
    [
        ("docs/**", "docs/a.md", True),
        ("docs/**", "src/docs/a.md", False),
        ("CHANGELOG.md", "sub/CHANGELOG.md", True),
        ("path:notes", "a/notes/b", True),
        ("docs/**\n!docs/private/**", "docs/private/x", False),
        ("!docs/private/**\ndocs/**", "docs/private/x", False),
        ("docs/**\n!private", "docs/private/x", False),
        ("docs/**\n!docs/private/**", "docs/open/x", True),
        ("docs/** until=2026-02-19", "docs/a", False),
        ("caf\u00e9", "cafe\u0301/x", True),
        ("a[b", "a[b", False),
        ("", "docs/a", False),
        ("doc\u202es", "docs", False),
    ],
)
def test_a_path_is_exempt_by_a_floating_pattern(text: str, path: str, exempt: bool):
    assert bool(ignored(text).for_path(NOW)(path)) is exempt


def test_each_problem_is_reported():
    found = ignored("intent:INT-999\nINT-998\na[b\nINT-007 until=x\ndocs/**\n")
    assert [(each.code, each.line) for each in found.problems] == [
        ("W301", 1),
        ("W301", 2),
        ("E206", 3),
        ("E213", 4),
    ]


def test_the_file_is_read_fresh_and_exempts_nothing_if_it_cannot_be(tmp_path: Path):
    layout = laid_out(tmp_path)
    assert not read_intent_ignore(layout, KNOWN, NOW).exemptions
    layout.ignore_file.write_text("INT-001\n")
    assert read_intent_ignore(layout, KNOWN, NOW).for_intent("INT-001", NOW) == "INT-001"
    layout.ignore_file.write_bytes(b"INT-001\n\xff")
    assert [each.code for each in read_intent_ignore(layout, KNOWN, NOW).problems] == ["E101"]
    layout.ignore_file.write_bytes(b"INT-001\n" * 100_000)
    assert [each.code for each in read_intent_ignore(layout, KNOWN, NOW).problems] == ["E102"]


@each_row(
    ("pattern", "path", "over"),
    [
        ("infra/prod/**", "infra/prod/x", True),
        ("infra/prod/**", "sub/infra/prod/x", False),
        ("*.key", "deep/down/a.KEY", True),
        ("secrets", "a/Secrets/b", True),
        ("infra/{prod,live}/**", "infra/live/x", True),
        ("/top", "sub/top", False),
        ("caf\u00e9", "CAFE\u0301/x", True),
    ],
)
def test_protected_patterns_without_a_slash_match_at_any_depth(pattern: str, path: str, over: bool):
    assert bool(protection_lookup([pattern])(path)) is over


def test_an_empty_pattern_is_invalid():
    assert ignore_pattern_fault("# x")
    assert ignore_pattern_fault("a[")
    assert not ignore_pattern_fault("a/**")


def test_the_nearest_folder_with_intents_governs(tmp_path: Path):
    inner = tmp_path / "a" / "b"
    (inner / "c").mkdir(parents=True)
    laid_out(tmp_path)
    assert find_layout(inner / "c", tmp_path).layout == Layout(
        tmp_path.resolve(), tmp_path.resolve()
    )
    laid_out(inner)
    found = find_layout(inner / "c", tmp_path).layout
    assert found
    assert found.root == inner.resolve()
    assert found.workspace == tmp_path.resolve()
    assert find_layout(inner, inner / "c").layout is None


def test_nothing_above_the_workspace_counts(tmp_path: Path):
    laid_out(tmp_path)
    (tmp_path / "work").mkdir()
    assert find_layout(tmp_path / "work", tmp_path / "work").layout is None


def test_a_folder_without_the_file_is_noticed_and_governs_nothing(tmp_path: Path):
    (tmp_path / ".orchestration").mkdir()
    found = find_layout(tmp_path, tmp_path)
    assert found.layout is None
    assert "intents init" in found.notice


def test_finding_the_layout_creates_nothing(tmp_path: Path):
    assert find_layout(tmp_path, tmp_path).notice == ""
    assert list(tmp_path.iterdir()) == []


def test_W314_nested_roots_are_ignored(tmp_path: Path):
    layout = laid_out(tmp_path)
    laid_out(tmp_path / "sub" / "deep")
    laid_out(tmp_path / "node_modules" / "x")
    assert [(each.code, each.file) for each in nested_roots(layout)] == [
        ("W314", "sub/deep/.orchestration/active_intents.yaml")
    ]


def test_init_follows_no_link(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".orchestration").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RookeryError, match="nothing was created"):
        init(tmp_path / "work")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_leases_show_other_running_tasks(tmp_path: Path):
    leases = Leases(laid_out(tmp_path))
    assert leases.active(now=NOW) == ()
    leases.take("t-1", "INT-001", ["src/auth/**"], now=NOW)
    leases.take("t-2", "INT-001", ["src/auth/**"], now=NOW)
    leases.take("t-3", "INT-002", ["src/**"], now=NOW)
    leases.take("t-4", "INT-003", ["docs/**"], now=NOW)
    leases.take("../../etc/odd", "INT-004", ["lib/**"], now=NOW)
    found = leases.neighbours("t-1", "INT-001", ["src/auth/**"], now=NOW)
    assert [(each.task, each.intent_id == "INT-001") for each in found] == [
        ("t-2", True),
        ("t-3", False),
    ]
    leases.release("t-3")
    leases.release("../../etc/odd")
    (found,) = leases.neighbours("t-1", "INT-001", ["src/auth/**"], now=NOW)
    assert found.task == "t-2"
    assert {each.task for each in leases.active(now=NOW)} == {"t-1", "t-2", "t-4"}


def test_a_heartbeat_renews_a_lease(tmp_path: Path):
    leases = Leases(laid_out(tmp_path))
    leases.take("t-1", "INT-001", ["a"], now=NOW)
    later = NOW + timedelta(minutes=6)
    assert leases.active(now=later) == ()
    leases.take("t-1", "INT-001", ["a"], now=later)
    assert len(leases.active(now=later)) == 1


def lease_by_another_process(layout: Layout) -> None:
    """Taken by a process that has ended by now."""
    code = (
        "import sys; from pathlib import Path; from datetime import datetime\n"
        "from rookery.governance.layout import Layout\n"
        "from rookery.governance.intents.leases import Leases\n"
        "root = Path(sys.argv[1])\n"
        "now = datetime.fromisoformat(sys.argv[2])\n"
        "Leases(Layout(root, root)).take('gone', 'INT-002', ['**'], now=now)\n"
    )
    run_program(code, str(layout.root), NOW.isoformat()).check_returncode()


def test_the_lease_of_a_crashed_holder_is_ignored_and_removed_by_a_later_task(tmp_path: Path):
    layout = laid_out(tmp_path)
    lease_by_another_process(layout)
    leases = Leases(layout)
    assert (layout.leases / "gone.json").exists()
    assert leases.active(now=NOW) == ()
    leases.take("t-1", "INT-001", ["a"], now=NOW)
    assert {each.name for each in layout.leases.iterdir()} == {"gone.json", "t-1.json"}
    later = NOW + timedelta(days=2)
    leases.take("t-1", "INT-001", ["a"], now=later)
    leases.take("t-2", "INT-001", ["a"], now=later)
    assert {each.name for each in layout.leases.iterdir()} == {"t-1.json", "t-2.json"}


def test_a_reused_pid_is_not_the_same_process(tmp_path: Path):
    layout = laid_out(tmp_path)
    leases = Leases(layout)
    leases.take("t-1", "INT-001", ["a"], now=NOW)
    path = layout.leases / "t-1.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "started": "1"}))
    assert leases.active(now=NOW) == ()
    path.write_text(json.dumps({**said, "started": "1", "host": socket.gethostname() + "x"}))
    assert len(leases.active(now=NOW)) == 1


NO_LEASES = ["", "[]", "null", "[" * 50_000, '{"task": 1}', '{"task":"t","heartbeat":"x"}']


def test_files_that_are_not_leases_are_skipped(tmp_path: Path):
    layout = laid_out(tmp_path)
    layout.leases.mkdir(parents=True)
    for number, content in enumerate([*NO_LEASES, "x" * 300_000]):
        (layout.leases / f"odd_{number}.json").write_text(content)
    os.mkfifo(layout.leases / "pipe.json")
    assert Leases(layout).active(now=NOW) == ()


def test_both_command_policies_are_read(tmp_path: Path):
    layout = laid_out(tmp_path)
    assert read_command_policy(layout)[1] == ()
    layout.command_policy_file.write_text(
        "rules:\n  - prefix: [git, [fetch, pull]]\n    decision: allow\n    match: [git fetch]\n"
        "    not_match: [git push]\n"
    )
    (layout.folder / "command-policy.json").write_text('{"safe": ["^ls"], "destructive": ["rm"]}')
    policy, problems = read_command_policy(layout)
    assert problems == ()
    for words, decision in (
        (["git", "pull"], Decision.ALLOW),
        (["ls"], Decision.ALLOW),
        (["rm", "x"], Decision.ASK),
    ):
        assert opinion(policy, [words], redirects=False)[0] is decision
    layout.command_policy_file.write_text("rules: &a []\n")
    (layout.folder / "command-policy.json").write_text('{"rules": [{"prefix": []}]}')
    assert {each.code for each in read_command_policy(layout)[1]} == {"E104", "E214"}


def test_the_times_of_a_lease_are_in_one_zone(tmp_path: Path):
    layout = laid_out(tmp_path, SPEC_EXAMPLE)
    Leases(layout).take("t", "I", [], now=datetime.now().astimezone())
    said = json.loads((layout.leases / "t.json").read_text())
    assert datetime.fromisoformat(said["heartbeat"]).utcoffset() == UTC.utcoffset(None)
