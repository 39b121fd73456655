"""The paths a call is judged by; a folder counts for everything in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.governance.intents.intent import Intent, Policy
from rookery.governance.layout import Layout
from rookery.governance.scope.locations import NamedPath, judge_paths
from rookery.governance.scope.project_rules import IntentIgnore, active_scope
from rookery.governance.scope.scope_verdict import Op, PathVerdict
from rookery.governance.scope.touched_paths import server_paths
from support.intent_files import NOW, laid_out

INTENT = Intent(id="INT-001", owned_scope=("src/auth/**", "!src/auth/legacy/**"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for name in ("src/auth/a.py", "src/auth/deep/b.py", "src/auth/legacy/c.py", "src/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    return laid_out(tmp_path)


def judged(layout: Layout, path: str, op: Op = Op.DELETE) -> list[tuple[str, str, str]]:
    rules = active_scope(INTENT, Policy(), IntentIgnore(), now=NOW)
    found = judge_paths(layout, rules, [NamedPath(path, op)])
    return [(each.path, str(each.op), str(each.verdict)) for each in found]


def test_a_folder_passes_if_all_that_is_in_it_does(layout: Layout) -> None:
    assert judged(layout, "src/auth/deep") == [("src/auth/deep", "delete", "in_scope")]


def test_the_files_out_of_scope_in_a_folder_are_listed(layout: Layout) -> None:
    assert judged(layout, "src/auth") == [("src/auth/legacy/c.py", "delete", "out_of_scope")]
    assert ("src/d.py", "delete", "out_of_scope") in judged(layout, "src")


def test_a_link_below_a_folder_goes_as_itself(layout: Layout) -> None:
    (layout.root / "src/auth/deep/link").symlink_to("../../d.py")
    [(path, _, verdict)] = judged(layout, "src/auth/deep")
    assert (path, verdict) == ("src/auth/deep/link", PathVerdict.REJECTED)


def test_files_below_a_folder_are_judged_as_if_each_were_named(layout: Layout) -> None:
    (layout.root / "src/auth/deep/twin.py").hardlink_to(layout.root / "src/auth/a.py")
    (layout.root / "src/auth/bad\nname").write_text("x", encoding="utf-8")
    (layout.root / "src/auth/deep/out").symlink_to("/etc")
    rules = active_scope(INTENT, Policy(), IntentIgnore(), now=NOW)
    files = [str(each) for each in (layout.root / "src").rglob("*") if not each.is_dir()]
    files.append(str(layout.root / "src/auth/deep/out"))
    alone = judge_paths(layout, rules, [NamedPath(each, Op.DELETE) for each in files])
    refusable = {(each.path, each.code) for each in alone if each.verdict != PathVerdict.IN_SCOPE}
    together = judge_paths(layout, rules, [NamedPath("src", Op.DELETE)])
    # a name that cannot be judged is reported as given, once whole and once below the folder
    assert {code for _, code in refusable} == {each.code for each in together}
    assert {path for path, code in refusable if code != "REQ-015"} == {
        each.path for each in together if each.code != "REQ-015"
    }


def test_a_missing_path_counts_as_created(layout: Layout) -> None:
    assert judged(layout, "src/auth/new.py", Op.MODIFY) == [
        ("src/auth/new.py", "create", "in_scope")
    ]
    assert judged(layout, "src/auth/a.py", Op.MODIFY)[0][1] == "modify"


def test_a_path_that_climbs_out_is_refused(layout: Layout) -> None:
    [(_, _, verdict)] = judged(layout, "../../outside.txt")
    assert verdict == PathVerdict.REJECTED


def test_too_many_files_are_not_taken_for_granted(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.governance.scope.locations.MOST_BELOW", 1)
    (layout.root / "src/auth/deep/more.py").write_text("x", encoding="utf-8")
    [(_, _, verdict)] = judged(layout, "src/auth/deep")
    assert verdict == PathVerdict.REJECTED


ARGUMENTS: dict[str, tuple[Any, list[str]]] = {
    "plain": ({"path": "a.py"}, ["a.py"]),
    "an address": ({"uri": "file:///x/a.py"}, ["file:///x/a.py"]),
    "a list of objects": ({"edits": [{"path": "a.py"}]}, ["a.py"]),
    "another spelling": ({"filePath": "a.py"}, ["a.py"]),
    "deep": ({"a": {"b": [{"c": {"file_path": "a.py"}}]}}, ["a.py"]),
    "an object for a path": ({"file": {"x": "src/a.py"}}, ["src/a.py"]),
    "a path for a name": ({"files": {"a.py": "one\ntwo\n"}}, ["a.py"]),
    "content is no path": ({"files": [{"path": "a.py", "content": "one\ntwo\n"}]}, ["a.py"]),
    "many": ({"paths": [f"{number}.py" for number in range(300)]}, [f"{n}.py" for n in range(300)]),
    "none": ({"text": "a.py"}, []),
}


@pytest.mark.parametrize(("arguments", "paths"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_wherever_a_server_is_given_a_path_it_is_judged(arguments: Any, paths: list[str]) -> None:
    async def perform(permit: Permit) -> Outcome:
        raise AssertionError

    action = Action(title="", perform=perform, payload={"arguments": json.dumps(arguments)})
    assert [each.path for each in server_paths(action)] == paths
