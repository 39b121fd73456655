import os
import unicodedata
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.asks import Decision
from rookery.governance.intents.intent import Intent, IntentStatus, Policy
from rookery.governance.layout import Layout
from rookery.governance.scope.locations import find_location, ignores_case
from rookery.governance.scope.project_rules import IntentIgnore, active_scope, parse_intent_ignore
from rookery.governance.scope.scope_verdict import Location, Op, PathFinding, PathVerdict, judge
from support.intent_files import NOW, laid_out

INTENT = Intent(
    id="INT-001", name="n", status=IntentStatus.IN_PROGRESS, owned_scope=("src/auth/**",)
)
NOTHING_IGNORED = IntentIgnore()
POLICY = Policy(protect=("infra/prod/**",))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = laid_out(tmp_path / "work")
    for name in ("src/auth/jwt.py", "src/api/user.py", "docs/a.md", "infra/prod/x", "other/o"):
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x")
    (made.root / "src/auth/link").symlink_to("../api/user.py")
    (made.root / "src/auth/d").symlink_to(tmp_path / "outside")
    (made.root / "src/auth/out").symlink_to(tmp_path / "outside" / "x")
    (made.root / "src/auth/here").symlink_to("jwt.py")
    (made.root / "src/auth/api").symlink_to("../api")
    (made.root / "src/auth/loop").symlink_to("loop")
    (made.root / "other/link").symlink_to("../src/auth/jwt.py")
    (made.root / "src/auth/gone").symlink_to("../nowhere/x")
    return made


def judged(
    layout: Layout,
    said: str,
    *,
    intent: Intent = INTENT,
    op: Op = Op.MODIFY,
    ignore: IntentIgnore = NOTHING_IGNORED,
    cwd: str = "",
) -> PathFinding:
    found = find_location(layout, said, op, cwd=cwd)
    if isinstance(found, PathFinding):
        return found
    return judge(found, op, active_scope(intent, POLICY, ignore, now=NOW))


ROWS = [
    ("in scope", "src/auth/jwt.py", PathVerdict.IN_SCOPE, ""),
    ("new", "src/auth/new/deep.py", PathVerdict.IN_SCOPE, ""),
    ("out of scope", "src/api/user.py", PathVerdict.OUT_OF_SCOPE, ""),
    ("dots", "src/auth/../api/user.py", PathVerdict.OUT_OF_SCOPE, ""),
    ("above the workspace", "../../outside.txt", PathVerdict.REJECTED, "traversal"),
    ("over what is not there", "src/auth/nope/../x.py", PathVerdict.REJECTED, "traversal"),
    ("absolute and in scope", "{root}/src/auth/jwt.py", PathVerdict.IN_SCOPE, ""),
    ("outside", "{outside}/x", PathVerdict.OUTSIDE, "outside"),
    ("a link out of the scope", "src/auth/link", PathVerdict.REJECTED, "symlink_escape"),
    ("below a link out of the workspace", "src/auth/d/x", PathVerdict.REJECTED, "symlink_escape"),
    ("a file", "src/auth/out", PathVerdict.REJECTED, "symlink_escape"),
    ("new", "src/auth/d/new", PathVerdict.REJECTED, "symlink_escape"),
    ("absolute", "{root}/src/auth/d/x", PathVerdict.REJECTED, "symlink_escape"),
    ("back from below such a link", "src/auth/d/../x", PathVerdict.REJECTED, "symlink_escape"),
    ("inside", "src/auth/api/../x", PathVerdict.OUT_OF_SCOPE, ""),
    ("a link from outside", "other/link", PathVerdict.OUT_OF_SCOPE, ""),
    ("a link that stays", "src/auth/here", PathVerdict.IN_SCOPE, ""),
    ("a folder that is a link", "src/auth/api/user.py", PathVerdict.OUT_OF_SCOPE, ""),
    ("a link to nothing", "src/auth/gone", PathVerdict.REJECTED, "symlink_escape"),
    ("a loop", "src/auth/loop", PathVerdict.REJECTED, "symlink_escape"),
    ("right to left", "src/auth/\u202ex", PathVerdict.REJECTED, "control_char"),
    ("NUL", "src/auth/\0x", PathVerdict.REJECTED, "nul"),
    ("metadata of git", ".git/hooks/pre-commit", PathVerdict.PROTECTED, ""),
    ("intents", ".orchestration/active_intents.yaml", PathVerdict.PROTECTED, ""),
    ("policy", "infra/prod/x", PathVerdict.PROTECTED, ""),
    ("address", "file://{outside}/x", PathVerdict.OUTSIDE, "outside"),
    ("address inside", "file://{root}/src/auth/jwt.py", PathVerdict.IN_SCOPE, ""),
    ("address of another host", "file://host/x", PathVerdict.REJECTED, "outside"),
    ("address with NUL", "file:///a%00b", PathVerdict.REJECTED, "nul"),
]


@pytest.mark.parametrize(
    ("said", "verdict", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_paths_on_disk(layout: Layout, said: str, verdict: PathVerdict, reason: str):
    outside = layout.root.parent / "outside"
    finding = judged(layout, said.format(root=layout.root, outside=outside))
    assert finding.verdict is verdict
    assert not reason or finding.reason == reason


def test_the_real_path_is_named(layout: Layout):
    assert judged(layout, "src/auth/link").real_path == "src/api/user.py"


def test_a_second_name_is_asked_about(layout: Layout):
    os.link(layout.root / "src/auth/jwt.py", layout.root / "other/second")
    finding = judged(layout, "src/auth/jwt.py")
    assert (finding.decision, finding.reason) == (Decision.ASK, "shared content")


def test_a_decomposed_name_on_disk(layout: Layout):
    intent = replace(INTENT, owned_scope=("src/caf\u00e9/**",))
    said = unicodedata.normalize("NFD", "src/caf\u00e9/x")
    assert judged(layout, said, intent=intent).verdict is PathVerdict.IN_SCOPE


def test_the_ignore_file_exempts_intents_and_paths_but_not_protected_ones(layout: Layout):
    ignore = parse_intent_ignore("INT-001\n", ["INT-001"], NOW)
    assert judged(layout, "src/api/user.py", ignore=ignore).verdict is PathVerdict.IGNORED
    assert judged(layout, ".orchestration/hooks.json", ignore=ignore).code == "REQ-014"
    assert judged(layout, "infra/prod/x", ignore=ignore).code == "REQ-014"
    assert judged(layout, "../x", ignore=ignore).code == "REQ-015"
    docs = parse_intent_ignore("docs/**\n", ["INT-001"], NOW)
    assert judged(layout, "docs/a.md", ignore=docs).verdict is PathVerdict.IGNORED
    assert judged(layout, "src/api/user.py", ignore=docs).verdict is PathVerdict.OUT_OF_SCOPE


def test_a_path_is_seen_from_the_tools_folder(layout: Layout):
    assert judged(layout, "jwt.py", cwd=str(layout.root / "src/auth")).path == "src/auth/jwt.py"


def test_a_path_beside_the_governed_folder_is_out_of_scope(tmp_path: Path):
    inner = laid_out(tmp_path / "sub")
    layout = Layout(inner.root, tmp_path.resolve())
    (tmp_path / "src" / "auth").mkdir(parents=True)
    found = find_location(layout, "src/auth/x", Op.CREATE)
    assert isinstance(found, Location)
    assert not found.governed
    finding = judged(layout, "src/auth/x")
    assert (finding.verdict, finding.reason) == (PathVerdict.OUT_OF_SCOPE, "ungoverned")
    assert judged(layout, "sub/src/auth/x").verdict is PathVerdict.IN_SCOPE


def test_case_sensitivity_depends_on_the_volume(layout: Layout):
    same = (layout.root / ".ORCHESTRATION").exists()
    assert ignores_case(layout.root) is same
    assert not ignores_case(layout.root / "src")
