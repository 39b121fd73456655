import json

from rookery.core.refusals import (
    KINDS,
    MOST_STEPS,
    Problem,
    Refusal,
    RefusedTarget,
    merged,
    scope_refusal,
)
from support.each_row import each_row

USER = RefusedTarget("src/api/user.py", "modify", "out_of_scope")

EXAMPLE = """
{"error_type":"scope_violation","code":"REQ-001","intent_id":"INT-001",
 "tool":"write_to_file","tool_use_id":"toolu_7","filename":"src/api/user.py",
 "message":"INT-001 may not change src/api/user.py.",
 "targets":[{"path":"src/api/user.py","op":"modify","verdict":"out_of_scope"}],
 "retryable":false,
 "recovery":["change a file inside: src/auth/**, src/middleware/jwt.py",
             "call request_scope_expansion with the path and a reason"],
 "feedback":null}
"""


def test_a_scope_refusal_matches_the_documented_example():
    said = scope_refusal(
        intent_id="INT-001",
        tool="write_to_file",
        tool_use_id="toolu_7",
        target=USER,
        scope=["src/auth/**", "src/middleware/jwt.py", "!src/auth/legacy/**"],
    ).to_json()
    assert list(said.items()) == list(json.loads(EXAMPLE).items())


TYPES = {
    "REQ-001": "scope_violation",
    "REQ-002": "unknown_targets",
    "REQ-003": "no_active_intent",
    "REQ-004": "intent_mismatch",
    "REQ-005": "invalid_metadata",
    "REQ-006": "intent_not_found",
    "REQ-007": "stale_file",
    "REQ-008": "destructive_operation_denied",
    "REQ-010": "intent_not_in_progress",
    "REQ-011": "intent_file_missing",
    "REQ-012": "intent_invalidated",
    "REQ-013": "intent_file_invalid",
    "REQ-014": "protected_path",
    "REQ-015": "path_rejected",
    "REQ-016": "budget_exceeded",
    "REQ-017": "dependency_unmet",
    "REQ-018": "scope_conflict",
    "CMD-001": "command_not_authorized",
    "CMD-002": "command_wrote_out_of_scope",
    "HOOK-INT-001": "missing_intent",
    "HOOK-001": "hook_blocked",
    "HOOK-002": "hook_failed",
    "HOOK-003": "hook_timeout",
    "HOOK-004": "hook_untrusted",
    "TRC-001": "trace_write_failed",
    "TRC-002": "trace_integrity",
}


def test_refusal_codes_match_their_table():
    assert {code: kind.error_type for code, kind in KINDS.items()} == TYPES


@each_row("code", TYPES)
def test_every_refusal_says_what_to_do_next(code: str):
    said = Refusal(code=code, message="No.", steps=("a", "b", "c", "d")).to_json()
    assert said["error_type"] == TYPES[code]
    assert said["recovery"] == ["a", "b", "c"]
    assert 0 < len(Refusal(code=code, message="No.").recovery) <= MOST_STEPS
    json.dumps(said)


def test_a_missing_file_names_the_command_that_creates_it():
    assert "intents init" in " ".join(Refusal(code="REQ-011", message="x").recovery)


def test_nothing_outside_the_workspace_is_named_in_full():
    target = RefusedTarget("/home/somebody/secret/keys.txt", "modify", "outside")
    refusal = Refusal(
        code="REQ-001",
        message=f"INT-001 may not change {target.path}.",
        targets=(target, USER),
        steps=(f"leave {target.path} alone",),
        reason=f"{target.path} is outside",
        details=(("files", [target.path]),),
    )
    text = json.dumps([refusal.to_json(), merged([refusal, refusal]).to_json()])
    assert "/home/somebody" not in text
    assert "keys.txt" in text
    assert "src/api/user.py" in text


def test_all_problems_of_a_call_are_listed_most_serious_first():
    out = Refusal(code="REQ-001", message="out", targets=(USER,))
    link = Refusal(code="REQ-015", message="link", reason="symlink_escape")
    said = merged([out, link]).to_json()
    assert said["code"] == "REQ-015"
    assert said["reason"] == "symlink_escape"
    assert [each["code"] for each in said["problems"]] == ["REQ-001", "REQ-015"]
    assert "problems" not in merged([out]).to_json()


def test_file_errors_are_among_the_problems():
    fault = Problem(file="f", code="E103", message="m", line=3, column=7)
    said = Refusal(code="REQ-013", message="x", faults=(fault,)).to_json()
    assert [(each["code"], each["line"], each["column"]) for each in said["problems"]] == [
        ("E103", 3, 7)
    ]


def test_feedback_and_details_are_included():
    refusal = Refusal(
        code="REQ-007",
        message="x",
        feedback="use the other file",
        reason="changed",
        details=(("expected_hash", "a"), ("actual_hash", None)),
    )
    said = refusal.to_json()
    assert said["feedback"] == "use the other file"
    assert (said["reason"], said["expected_hash"], said["actual_hash"]) == ("changed", "a", None)
    assert said["retryable"]
