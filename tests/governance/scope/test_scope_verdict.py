import pytest
from msgspec.structs import replace

from rookery.core.asks import Decision
from rookery.governance.intents.intent import Policy
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import (
    Location,
    Op,
    Outside,
    PathFinding,
    PathVerdict,
    ScopeRules,
    always_protected,
    judge,
    path_fault,
    reject_path,
)
from support.each_row import each_row

PATTERNS = ("src/auth/**", "src/middleware/jwt.py", "!src/auth/legacy/**")
RULES = ScopeRules(patterns=PATTERNS, scope=scope(PATTERNS))
EVERYTHING = ScopeRules(patterns=("**",), scope=scope(["**"]))


def at(named: str, real: str = "", **more: object) -> Location:
    return replace(Location(named=named, real=real or named), **more)


def found(location: Location, rules: ScopeRules = RULES, op: Op = Op.MODIFY) -> PathFinding:
    return judge(location, op, rules)


IN, OUT, REJECTED = PathVerdict.IN_SCOPE, PathVerdict.OUT_OF_SCOPE, PathVerdict.REJECTED
NONE, ASK, DENY = Decision.NONE, Decision.ASK, Decision.DENY
ABOVE, ELSEWHERE, LINKED = Outside.TRAVERSAL, Outside.WRITTEN, Outside.LINK
TABLE = {
    "in scope": (at("src/auth/jwt.py"), IN, NONE, "", ""),
    "out of scope": (at("src/api/user.py"), OUT, ASK, "REQ-001", ""),
    "above": (at("../x", outside=ABOVE), REJECTED, DENY, "REQ-015", "traversal"),
    "outside": (at("/x", outside=ELSEWHERE), PathVerdict.OUTSIDE, ASK, "REQ-001", "outside"),
    "link out": (at("src/auth/l", "src/a.py"), REJECTED, DENY, "REQ-015", "symlink_escape"),
    "link away": (at("/out/x", outside=LINKED), REJECTED, DENY, "REQ-015", "symlink_escape"),
    "link in": (at("other/link", "src/auth/jwt.py"), OUT, ASK, "REQ-001", ""),
    "two names": (at("src/auth/a.py", links=2), IN, ASK, "REQ-001", "shared content"),
    "zero-width": (at("src/auth/a\u200b.py"), IN, ASK, "REQ-001", "unseen characters"),
    "ungoverned": (at("src/auth/x", governed=False), OUT, ASK, "REQ-001", "ungoverned"),
}


@each_row("name", TABLE)
def test_the_verdict(name: str):
    location, *expected = TABLE[name]
    finding = found(location)
    assert [finding.verdict, finding.decision, finding.code, finding.reason] == expected


def test_the_nearest_pattern_is_named():
    assert found(at("src/api/user.py")).nearest == "src/auth/**"
    assert found(at("src/auth/legacy/x")).matched == "!src/auth/legacy/**"
    assert found(at("src/auth/x")).matched == "src/auth/**"


def test_an_approval_outside_the_scope_covers_one_call():
    assert found(at("/etc/x", outside=Outside.WRITTEN)).once_only


@each_row(
    "path",
    [
        ".orchestration/active_intents.yaml",
        ".git/hooks/pre-commit",
        "sub/.GIT/config",
        ".hg/x",
        ".jj/x",
        ".svn/x",
        ".Orchestration/hooks.json",
    ],
)
def test_no_scope_and_no_exemption_opens_protected_paths(path: str):
    rules = replace(EVERYTHING, exempt_intent="INT-001", exempt=lambda each: "**")
    assert always_protected(path)
    assert found(at(path), rules).code == "REQ-014"
    assert found(at("src/auth/link", path), rules).code == "REQ-014"


def test_the_exemption_does_not_reach_outside():
    rules = replace(RULES, exempt_intent="INT-001")
    assert found(at("../x", outside=Outside.TRAVERSAL), rules).code == "REQ-015"
    assert found(at("/x", outside=Outside.WRITTEN), rules).code == "REQ-001"


def test_the_policy_protects_what_the_scope_grants():
    rules = replace(EVERYTHING, protected=lambda path: "infra/**" if "infra" in path else "")
    assert found(at("infra/x"), rules).verdict is PathVerdict.PROTECTED
    assert found(at("x", "infra/x"), rules).verdict is PathVerdict.PROTECTED
    assert found(at("x"), rules).verdict is PathVerdict.IN_SCOPE


def test_an_exempt_intent_is_let_through():
    finding = found(at("src/api/user.py"), replace(RULES, exempt_intent="INT-001"))
    assert (finding.verdict, finding.decision) == (PathVerdict.IGNORED, Decision.NONE)
    assert finding.matched == "INT-001"


def test_an_exempt_path_is_let_through_if_both_locations_are_exempt():
    rules = replace(RULES, exempt=lambda path: "docs/**" if path.startswith("docs/") else "")
    assert found(at("docs/a.md"), rules).matched == "docs/**"
    assert found(at("docs/link", "src/api/x"), rules).verdict is PathVerdict.OUT_OF_SCOPE
    assert found(at("src/api/link", "docs/a"), rules).verdict is PathVerdict.OUT_OF_SCOPE


@each_row(
    ("deletes", "decision", "code"),
    [
        ("ask", Decision.ASK, "REQ-008"),
        ("deny", Decision.DENY, "REQ-008"),
        ("allow", Decision.NONE, ""),
    ],
)
@each_row("op", [Op.DELETE, Op.RENAME])
def test_deleting_in_scope_is_asked_about(deletes, decision: Decision, code: str, op: Op):
    rules = replace(RULES, policy=Policy(deletes=deletes))
    finding = found(at("src/auth/x"), rules, op)
    assert (finding.decision, finding.code) == (decision, code)


def test_a_policy_may_deny_paths_out_of_scope():
    rules = replace(RULES, policy=Policy(out_of_scope="deny"))
    assert found(at("src/api/x"), rules).decision is Decision.DENY


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("a\0b", "nul"),
        ("src/\u202egpj.py", "control_char"),
        ("a\nb", "control_char"),
        ("", "empty"),
        ("\udc80", "not_unicode"),
        ("x" * 5000, "too_long"),
        ("é" * 2049, "too_long"),
        ("src/ok.py", ""),
    ],
    ids=["NUL", "right to left", "newline", "empty", "unicode", "long", "bytes", "fine"],
)
def test_a_path_may_be_refused_before_it_is_looked_for(said: str, reason: str):
    assert path_fault(said) == reason
    assert reject_path(said, Op.CREATE, reason).code == "REQ-015"
