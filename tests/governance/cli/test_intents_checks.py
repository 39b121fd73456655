"""`rookery intents close|check|validate|coverage|map`: what holds, and what would be allowed."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from rookery.governance.ledger.records import TracedFile
from support.governed_folder import FILE, IntentsBench


@pytest.fixture
def governed(governed: IntentsBench) -> IntentsBench:
    governed.trust()
    return governed


@pytest.fixture
def repository(governed: IntentsBench) -> IntentsBench:
    governed.git("init", "-q", "-b", "main")
    governed.commit("one")
    return governed


def test_close_runs_the_checks_and_completes(governed: IntentsBench) -> None:
    out = governed("close", "INT-001", "--met", "2")
    first, second, third = out.splitlines()
    assert first == "running 1 check"
    assert second.startswith("  [1/1] test -d src/auth ....")
    assert " ok (" in second
    assert third == "INT-001 COMPLETED."
    for name in ("A2", "a2"):
        governed("reopen", "INT-001")
        assert governed("close", "INT-001", "--met", name).endswith("INT-001 COMPLETED.\n")
    reported = governed.json("show", "INT-001")
    assert [each["standing"][:3] for each in reported["criteria"]] == ["ok ", "ok "]
    *_, check = governed.records("command")
    assert (check.command, check.exit_code, check.outcome) == ("test -d src/auth", 0, "success")
    assert f'trace_id: "{check.id}"' in governed.text
    *_, change = governed.records("intent_change")
    own = change.raw["metadata"]["orchestration"]
    assert own["change"]["to"] == "COMPLETED"
    assert own["change"]["met_by_person"] == ["A2"]


def test_a_failing_check_leaves_the_status_and_shows_its_last_20_lines(
    governed: IntentsBench,
) -> None:
    governed("start", "INT-002")
    out = governed("close", "INT-002", code=1)
    shown = [line.strip() for line in out.splitlines()[2:]]
    assert shown == [*map(str, range(12, 31)), "broken"]
    assert "failed, exit code 3" in out
    assert governed.err == "INT-002 stays IN_PROGRESS: 1 check failed.\n"
    reported = governed.json("show", "INT-002")
    assert reported["status"] == "IN_PROGRESS"
    assert reported["criteria"][0]["standing"].startswith("failed ")
    assert "ok: false" in governed.text


def test_force_needs_a_reason_and_records_it(governed: IntentsBench) -> None:
    governed("start", "INT-002")
    governed("close", "INT-002", "--force", code=2)
    assert governed("close", "INT-002", "--force", "--reason", "out of time") == (
        "INT-002 COMPLETED.\n"
    )
    assert governed.records("command") == [], "nothing was run"
    last = governed.records("intent_change")[-1]
    approval = last.raw["metadata"]["orchestration"]["approval"]
    assert approval["reason"] == "forced: out of time"
    assert 'reason: "forced: out of time"' in governed.text


def test_without_a_terminal_what_a_person_decides_is_refused(governed: IntentsBench) -> None:
    governed("close", "INT-001", code=1)
    assert "--met A2" in governed.err
    assert governed.text == FILE
    governed("close", "INT-001", "--met", "1", code=2)
    governed("close", "INT-001", "--met", "7", code=2)
    assert governed.text == FILE


def test_in_an_untrusted_folder_nothing_is_run(intents: IntentsBench) -> None:
    intents.govern(FILE.replace("test -d src/auth", "touch ran"))
    intents("close", "INT-001", "--met", "2", code=1)
    assert "not trusted" in intents.err
    assert not (intents.root / "ran").exists()


@pytest.mark.parametrize("edit", ["comment", "criteria"])
def test_close_during_an_edit_of_the_file_is_refused_and_loses_nothing(
    intents: IntentsBench, edit: str
) -> None:
    """The check itself edits the file, so that it happens at the right moment."""
    spoiling = (
        "echo '# mine' >> active.new && cat .orchestration/active_intents.yaml active.new > x"
        " && cat x > .orchestration/active_intents.yaml"
        if edit == "comment"
        else "sed -i s/Connection/Another/ .orchestration/active_intents.yaml"
    )
    intents.govern(FILE.replace('"test -d src/auth"', f'"{spoiling}"'))
    intents.trust()
    (intents.home / "config").mkdir(exist_ok=True)
    settings = intents.home / "config" / "settings.toml"
    settings.write_text('[sandbox]\nuse = "off"\n', encoding="utf-8")
    intents("close", "INT-001", "--met", "2", code=1)
    assert "changed while INT-001 was being closed" in intents.err
    assert "status: IN_PROGRESS" in intents.text
    assert ("# mine" if edit == "comment" else "Another pooling") in intents.text
    assert "COMPLETED" not in intents.text.split("INT-003")[0].split("INT-001")[1]
    assert intents.records("intent_change") == []


def test_close_as_json_lists_every_check(governed: IntentsBench) -> None:
    reported = governed.json("close", "INT-001", "--met", "2")
    assert reported["status"] == "COMPLETED"
    assert reported["manual"] == [
        {
            "number": 2,
            "id": "A2",
            "text": "When a token is expired, the API shall answer 401.",
            "met": True,
        }
    ]
    [check] = reported["checks"]
    assert (check["number"], check["ok"], check["exit_code"]) == (1, True, 0)


def test_check_says_what_is_in_scope_and_what_is_near(governed: IntentsBench) -> None:
    out = governed("check", "--intent", "INT-001", "src/auth/jwt.py", "src/api/user.py", code=1)
    assert out == (
        "in scope      src/auth/jwt.py  src/auth/**\n"
        "OUT OF SCOPE  src/api/user.py  nearest: src/auth/**\n"
    )
    assert governed("check", "--intent", "INT-001", "src/auth/jwt.py").startswith("in scope")


PATHS = {
    "in scope": ("src/auth/jwt.py", "in_scope", None),
    "out of scope": ("src/api/user.py", "out_of_scope", "REQ-001"),
    "dots": ("src/auth/../api/user.py", "out_of_scope", "REQ-001"),
    "above the workspace": ("../../outside.txt", "rejected", "REQ-015"),
    "a link out of the scope": ("src/auth/link", "rejected", "REQ-015"),
    "right to left": ("src/auth/\u202ex", "rejected", "REQ-015"),
    "intents": (".orchestration/active_intents.yaml", "protected", "REQ-014"),
    "metadata of git": (".git/hooks/pre-commit", "protected", "REQ-014"),
    "excluded": ("src/auth/legacy/x.py", "out_of_scope", "REQ-001"),
}


def test_check_judges_paths_as_the_gate_does(governed: IntentsBench) -> None:
    governed.write("src/api/user.py")
    (governed.root / "src/auth/link").symlink_to("../api/user.py")
    words = ("check", "--intent", "INT-001", *(path for path, _, _ in PATHS.values()))
    targets = governed.json(*words, code=1)["targets"]
    found = [(each["verdict"], each["code"]) for each in targets]
    assert dict(zip(PATHS, found, strict=True)) == {
        name: (verdict, code) for name, (_, verdict, code) in PATHS.items()
    }


@pytest.mark.parametrize(
    ("line", "code"), [("INT-001", 0), ("src/api/**", 0), ("INT-001 until=2020-01-01", 1)]
)
def test_check_heeds_the_exemptions(governed: IntentsBench, line: str, code: int) -> None:
    (governed.folder / ".intentignore").write_text(f"{line}\n", encoding="utf-8")
    governed("check", "--intent", "INT-001", "src/api/user.py", code=code)
    governed("check", "--intent", "INT-001", ".orchestration/hooks.json", code=1)


LINES = {
    "read only": ("ls", "read_only", True),
    "deletes out of scope": ("cat a && rm -rf build", "bounded", False),
    "redirection": ("echo x > src/api/user.py", "bounded", False),
    "allowed by a rule": ("pytest -q", "unbounded", True),
    "not every part": ("pytest -q && make", "unbounded", False),
    "unknown program": ("make build", "unbounded", False),
    "in scope": ("touch src/auth/new.py", "bounded", True),
    "deletion in scope asks": ("rm src/auth/jwt.py", "bounded", True),
    "denied by the intent": ("git push origin", "unbounded", False),
    "moves out of the scope": ("mv src/auth/jwt.py src/api/jwt.py", "bounded", False),
}


def test_check_judges_commands_as_the_gate_does(governed: IntentsBench) -> None:
    governed.write("build/a.o")
    for name, (line, kind, fine) in LINES.items():
        words = ("check", "--intent", "INT-001", "--command", line)
        reported = governed.json(*words, code=0 if fine else 1)
        assert (reported["kind"], reported["ok"]) == (kind, fine), name
    assert (governed.root / "src/auth/jwt.py").exists(), "nothing was run"


def test_check_of_a_command_names_what_it_changes(governed: IntentsBench) -> None:
    governed.write("build/a.o")
    out = governed("check", "--intent", "INT-001", "--command", "cat a && rm -rf build", code=1)
    assert out == "bounded  build/a.o (delete)  OUT OF SCOPE  nearest: src/auth/**\n"


def test_check_of_a_command_names_the_rules_that_allow_it(governed: IntentsBench) -> None:
    check = ("check", "--intent", "INT-001", "--command")
    assert governed(*check, "pytest -q") == (
        "unbounded  pytest -q\n  allowed by execute_command(pytest *)\n"
    )
    assert "allowed by" not in governed(*check, "ls")
    assert "allowed by" not in governed(*check, "pytest && make", code=1)
    governed.write(
        ".orchestration/command_policy.yaml",
        "rules:\n  - {prefix: [make, lint], decision: allow, justification: it only looks}\n",
    )
    said = "the project's rules for commands: it only looks"
    assert f"  allowed by {said}\n" in governed(*check, "make lint")
    assert governed.json(*check, "make lint")["allowed_by"] == said


def test_check_reports_an_intent_that_cannot_be_selected(governed: IntentsBench) -> None:
    out = governed("check", "--intent", "INT-002", "src/api/user.py")
    assert out.startswith("note: INT-002 is PENDING and could not be selected now\n")


@pytest.mark.parametrize(
    "words",
    [[], ["a"], ["--staged", "a", "--intent", "INT-001"], ["--command", "ls", "--staged"]],
    ids=["nothing", "no intent", "two things", "two kinds"],
)
def test_check_needs_one_thing_to_judge(governed: IntentsBench, words: list[str]) -> None:
    governed("check", *words, code=2)


def test_check_staged_takes_the_intent_from_the_branch(repository: IntentsBench) -> None:
    repository.write("src/auth/new.py")
    repository.git("add", "-A")
    repository("check", "--staged", code=2)
    repository.git("config", "branch.main.description", "Tokens.\n\nIntent: INT-001")
    repository.write("src/api/not_staged.py")
    assert repository("check", "--staged") == (
        "INT-001 (from branch trailer)  1 file in scope, 0 outside\n"
    )
    repository.git("add", "-A")
    out = repository("check", "--staged", code=1)
    assert "1 file in scope, 1 outside" in out
    assert "OUT OF SCOPE  src/api/not_staged.py  nearest: src/auth/**" in out


def test_check_staged_of_nothing_or_of_the_rules_needs_no_intent(
    repository: IntentsBench,
) -> None:
    assert repository("check", "--staged") == "nothing is staged, which needs no intent\n"
    repository.write(".orchestration/.intentignore", "docs/**\n")
    repository.git("add", "-A")
    said = "nothing but .orchestration/ is staged, which needs no intent\n"
    assert repository("check", "--staged") == said
    assert repository.json("check", "--staged")["ok"] is True
    repository.write("src/auth/new.py")
    repository.git("add", "-A")
    repository("check", "--staged", code=2)


MESSAGES = {
    "in scope": ("Add\n\nIntent: INT-001\n# Intent: INT-002\n", 0, "INT-001 (from the message)"),
    "two intents": ("Add\n\nIntent: INT-002\nIntent: INT-001\n", 0, "INT-002, INT-001"),
    "out of scope": ("Add\n\nIntent: INT-002\n", 1, "OUT OF SCOPE  src/auth/new.py"),
    "none": ("Add\n", 1, ""),
    "unknown": ("Add\n\nIntent: INT-999\n", 4, ""),
}


def test_check_staged_takes_the_intents_of_the_message_being_written(
    repository: IntentsBench,
) -> None:
    repository.git("config", "branch.main.description", "Intent: INT-001")
    repository.write("src/auth/new.py")
    repository.git("add", "-A")
    for name, (text, code, said) in MESSAGES.items():
        message = str(repository.write("message", text))
        assert said in repository("check", "--staged", "--message", message, code=code), name
        if name == "none":
            assert "Intent: INT-001" in repository.err
    repository("check", "--message", message, "--intent", "INT-001", "a", code=2)


def test_check_staged_judges_the_index_a_hook_is_given(
    repository: IntentsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write("src/api/x.py")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/other")
    repository.git("read-tree", "HEAD")
    repository.git("add", "src/api/x.py")
    repository("check", "--staged", "--intent", "INT-001", code=1)
    monkeypatch.delenv("GIT_INDEX_FILE")
    repository("check", "--staged", "--intent", "INT-001")


STAGED = """
git mv src/auth/jwt.py src/api.py
git rm -q src/gone.py
ln -s ../../d.py src/auth/deep/link_out
ln -s /etc/passwd src/auth/deep/link_away
echo >> .orchestration/active_intents.yaml
git add -A
"""


def test_check_staged_finds_what_was_moved_removed_and_linked(repository: IntentsBench) -> None:
    repository.commit("two", "src/d.py", "src/gone.py", "src/auth/deep/x.py")
    subprocess.run(["sh", "-ec", STAGED], cwd=repository.root, check=True)
    reported = repository.json("check", "--staged", "--intent", "INT-001", code=1)
    assert {(each["path"], each["verdict"]) for each in reported["targets"]} >= {
        ("src/api.py", "out_of_scope"),
        ("src/gone.py", "out_of_scope"),
        ("src/d.py", "out_of_scope"),
        ("/etc/passwd", "rejected"),
        (".orchestration/active_intents.yaml", "protected"),
    }


@pytest.mark.parametrize("words", [["--staged"], ["--range", "HEAD~1..HEAD"]])
def test_check_without_a_repository_fails_as_an_unreadable_one(
    repository: IntentsBench, words: list[str]
) -> None:
    shutil.rmtree(repository.root / ".git")
    repository("check", *words, code=9)


def test_check_range_takes_each_commits_intent_from_its_trailer(
    repository: IntentsBench,
) -> None:
    repository.commit("good\n\nIntent: INT-001", "src/auth/a.py")
    assert "1 commit, 0 with findings" in repository("check", "--range", "HEAD~1..HEAD")
    bad = repository.commit("bad\n\nIntent: INT-001", "src/api/a.py")
    none = repository.commit("none", "src/api/b.py")
    gone = repository.commit("gone\n\nIntent: INT-999", "src/api/c.py")
    rules = repository.commit("rules only", ".orchestration/.intentignore")
    out = repository("check", "--range", "HEAD~5..HEAD", code=1)
    assert f"{bad[:12]}  INT-001  0 files in scope, 1 outside" in out
    assert f"{none[:12]}  no Intent: line: none" in out
    assert f"{gone[:12]}  no such intent: INT-999: gone" in out
    assert f"{rules[:12]}  no files that need an intent" in out
    assert out.endswith("5 commits, 3 with findings\n")


def test_only_the_own_changes_of_a_merge_are_judged(repository: IntentsBench) -> None:
    repository.git("checkout", "-qb", "topic")
    repository.commit("there\n\nIntent: INT-001", "src/auth/there.py")
    repository.git("checkout", "-q", "main")
    repository.commit("here\n\nIntent: INT-002", "src/api/user.py")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    assert "0 with findings" in repository("check", "--range", "HEAD~1..HEAD")
    repository("check", "--range", "nowhere..HEAD", code=4)
    repository("check", "--range", "HEAD", code=2)
    repository("check", "--range", "--output=x..y", code=2)
    assert not (repository.root / "x..y").exists()


def test_a_commit_may_serve_two_intents(repository: IntentsBench) -> None:
    both = "both\n\nIntent: INT-001\nIntent: INT-002"
    repository.commit(both, "src/auth/a.py", "src/api/user.py")
    repository("check", "--range", "HEAD~1..HEAD")
    repository.commit(f"{both} ", "src/auth/a.py", "src/else.py")
    repository("check", "--range", "HEAD~1..HEAD", code=1)


def test_validate_lists_every_file(governed: IntentsBench) -> None:
    (governed.folder / ".intentignore").write_text(
        "docs/**\nINT-001 until=2020-01-31\n", encoding="utf-8"
    )
    (governed.folder / "command_policy.yaml").write_text(
        "rules:\n  - {prefix: [git, push], decision: deny}\n", encoding="utf-8"
    )
    out = governed("validate")
    lines = out.splitlines()
    assert lines[0] == ".orchestration/active_intents.yaml: 3 intents"
    assert ".orchestration/.intentignore: 2 entries, 1 expired (INT-001 until 2020-01-31)" in lines
    assert ".orchestration/command_policy.yaml: 1 rule" in lines
    assert lines[-1].startswith("0 errors, ")


def test_validate_of_hooks_says_whether_they_are_trusted(governed: IntentsBench) -> None:
    hooks = governed.folder / "hooks.json"
    hooks.write_text("{", encoding="utf-8")
    assert "it is not JSON" in governed("validate", code=1)
    hook = {"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}
    hooks.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}), encoding="utf-8")
    assert ".orchestration/hooks.json: 1 hook, 1 untrusted\n" in governed("validate")


def test_a_folder_that_may_only_be_read_can_be_looked_at(governed: IntentsBench) -> None:
    governed.changed(kind="intent_selected", intent_digest="0" * 64, files=())
    shutil.rmtree(governed.folder / ".state")
    governed.folder.chmod(0o500)
    try:
        assert "W311" in governed("validate")
        governed("list")
        governed("show", "INT-001")
        governed("coverage", "--allow", "uncovered")
        governed("pause", "INT-001", code=9)
    finally:
        governed.folder.chmod(0o700)
    assert governed.text == FILE


def test_strict_exits_3_for_warnings_only(governed: IntentsBench) -> None:
    governed("validate", "--strict")
    governed("expand", "INT-001", "src/nowhere/**")
    governed("validate")
    governed("validate", "--strict", code=3)
    governed.file.write_text(FILE.replace("PENDING", "DOING"), encoding="utf-8")
    governed("validate", "--strict", code=1)


def test_an_error_names_its_place_and_a_way_out(intents: IntentsBench) -> None:
    intents.govern(FILE.replace('"src/api/user/**"', '"../shared/**"'))
    out = intents("validate", code=1)
    assert "error E206  INT-002 owned_scope[0]" in out
    assert "fix: use a path relative to the workspace root" in out
    assert out.splitlines()[-1].endswith("Not selectable: INT-002.")
    reported = intents.json("validate", code=1)
    [error] = [each for each in reported["problems"] if each["severity"] == "error"]
    assert (error["code"], error["intent_id"], error["path"]) == (
        "E206",
        "INT-002",
        "owned_scope[0]",
    )


SAID = {
    "W305": ('"src/auth/**"', '"src/nowhere/**"', 0, '"src/nowhere/**" matches no file yet'),
    "E103": ("    name: User", "\tname: User", 1, "a tab here, and YAML is indented with spaces"),
}


@pytest.mark.parametrize("code", SAID)
def test_each_problem_is_reported_once_with_its_code(intents: IntentsBench, code: str) -> None:
    old, new, ending, said = SAID[code]
    intents.govern(FILE.replace(old, new))
    out = intents("validate", code=ending)
    assert said in out
    assert out.count(code) == 1


def test_W311_a_definition_changed_since_selection_is_reported(governed: IntentsBench) -> None:
    digest = governed.json("show", "INT-001")["digest"]
    governed.changed(kind="intent_selected", intent_digest=digest, files=())
    assert "W311" not in governed("validate")
    governed("expand", "INT-001", "src/more/**")
    assert "W311" in governed("validate")
    assert "and its revision did not; write revision: 4\n" in governed("validate")
    governed.file.write_text(governed.text.replace("revision: 3", "revision: 4"), encoding="utf-8")
    assert "W311" not in governed("validate")


def states(intents: IntentsBench, code: int, *words: str) -> dict[str, str]:
    return {
        each["id"]: each["state"] for each in intents.json("coverage", *words, code=code)["intents"]
    }


def test_coverage_of_intents_without_changes(governed: IntentsBench) -> None:
    assert states(governed, 1) == {"INT-001": "uncovered", "INT-003": "uncovered"}
    assert states(governed, 0, "--allow", "uncovered")


ONLY_CHECKED = FILE.replace("      - When a token is expired, the API shall answer 401.\n", "")


def ran(intents: IntentsBench, **more: Any) -> None:
    """Record that a task ran the check of INT-001."""
    reported = {
        "kind": "command",
        "tool_name": "intent_check",
        "tool_use_id": "check-INT-001-A1",
        "intent_digest": intents.json("show", "INT-001")["digest"],
        "command": {"text": "test -d src/auth", "exit_code": 0},
        **more,
    }
    intents.changed(**reported)


def standing(intents: IntentsBench) -> str:
    return str(intents.json("show", "INT-001")["criteria"][0]["standing"])


def test_what_a_task_checked_counts_like_what_closing_checked(intents: IntentsBench) -> None:
    intents.govern(ONLY_CHECKED)
    intents.changed("src/auth/jwt.py")
    ran(intents, outcome="failure")
    assert standing(intents).startswith("failed ")
    ran(intents)
    assert standing(intents).startswith("ok ")
    assert states(intents, 0, "--allow", "uncovered")["INT-001"] == "covered"
    ran(intents, outcome="denied")
    assert standing(intents).startswith("ok "), "a check that did not run proves nothing"
    intents("expand", "INT-001", "src/more/**")
    assert standing(intents) == "not run", "it is worded differently now"


def test_coverage_goes_from_unverified_to_covered_and_a_new_revision_voids_it(
    intents: IntentsBench,
) -> None:
    intents.govern(ONLY_CHECKED)
    intents.trust()
    allow = ("--allow", "uncovered")
    intents.changed("src/auth/jwt.py")
    assert states(intents, 0, *allow)["INT-001"] == "unverified"
    intents("close", "INT-001")
    assert states(intents, 0, *allow)["INT-001"] == "covered"
    intents("reopen", "INT-001")
    assert states(intents, 1, *allow)["INT-001"] == "outdated"
    assert standing(intents) == "not run in revision 4"
    lines = intents("show", "INT-001").splitlines()
    assert "criteria     A1 [not run in revision 4] test -d src/auth" in lines
    assert "coverage     outdated (0 of 1 criterion checked)" in lines
    intents.changed("src/auth/jwt.py", intent_rev=4)
    assert states(intents, 0, *allow)["INT-001"] == "unverified"
    ran(intents, intent_rev=4)
    assert standing(intents).startswith("ok ")
    assert states(intents, 0, *allow)["INT-001"] == "covered"
    intents.write("src/auth/jwt.py", "other\n")
    assert states(intents, 0, *allow)["INT-001"] == "drifted"


def test_caches_of_tools_are_in_no_report(governed: IntentsBench) -> None:
    left = governed.write("src/auth/__pycache__/jwt.cpython-311.pyc")
    governed.changed("src/auth/jwt.py")
    governed.changed("src/auth/__pycache__/jwt.cpython-311.pyc", intent="INT-777")
    governed.changed("src/auth/jwt.py", "src/auth/__pycache__/jwt.cpython-311.pyc")
    left.write_text("other", encoding="utf-8")
    reported = governed.json("coverage", "--allow", "uncovered")
    assert (reported["orphans"], reported["drifted"]) == ([], [])
    assert governed.json("show", "INT-001")["files"] == ["src/auth/jwt.py"]
    assert "pycache" not in governed("map")


def test_show_list_and_coverage_count_the_same_files(governed: IntentsBench) -> None:
    for name in ("a", "b", "c"):
        governed.write(f"src/auth/{name}.py")
    governed.changed("src/auth/a.py", "src/auth/b.py", "src/auth/c.py")
    gone = (TracedFile(path="src/auth/b.py", op="delete", after=None),)
    (governed.root / "src/auth/b.py").unlink()
    governed.changed(files=gone)
    governed.changed("src/auth/jwt.py", kind="command", tool_name="intent_check")
    mine = ["src/auth/a.py", "src/auth/c.py"]
    assert governed.json("show", "INT-001")["files"] == mine
    reported = governed.json("coverage", "--allow", "uncovered")
    assert [each["files"] for each in reported["intents"] if each["id"] == "INT-001"] == [mine]
    assert governed.json("list")["intents"][0]["files"] == 2


def test_orphans_fail_and_can_be_allowed(governed: IntentsBench) -> None:
    governed.write("src/lost.py")
    governed.changed("src/lost.py", intent="INT-777")
    out = governed("coverage", "--allow", "uncovered", code=1)
    assert "-        orphan     src/lost.py" in out
    governed("coverage", "--allow", "uncovered", "--allow", "orphan")


def test_map_is_printed_and_writes_no_file(governed: IntentsBench) -> None:
    """A file of an older version is not changed, so that merges do not conflict."""
    old = governed.folder / "intent_map.md"
    old.write_text("# My own words\n", encoding="utf-8")
    governed.changed("src/auth/jwt.py")
    made = governed("map")
    assert made.startswith("# Intent map\n")
    assert "- `src/auth/jwt.py`" in made
    assert governed("map") == made
    assert old.read_text(encoding="utf-8") == "# My own words\n"
    [reported, *_] = governed.json("map")["intents"]
    assert [each["path"] for each in reported["files"]] == ["src/auth/jwt.py"]
