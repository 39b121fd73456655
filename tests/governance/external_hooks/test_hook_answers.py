"""Exit status and output read as answers, and several answers joined into one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.external_hooks.hook_answers import (
    UNTRUSTED,
    HookAnswer,
    HookDecision,
    HookRun,
    combine,
    failure_answer,
    parse_answer,
)
from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent, OnFailure
from support.each_row import each_row

PRE = HookEvent.PRE_TOOL_USE


GUARDS = {HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST, HookEvent.USER_PROMPT_SUBMIT}


def hook(
    event: HookEvent = PRE,
    *,
    name: str = "guard",
    block: bool = False,
    on_failure: OnFailure = OnFailure.UNSET,
) -> HookCommand:
    on_failure = OnFailure.BLOCK if block else on_failure
    return HookCommand(event=event, name=name, command="x", on_failure=on_failure)


def said(document: Any, event: HookEvent = PRE, *, status: int = 0, err: str = "") -> HookAnswer:
    text = document if isinstance(document, str) else json.dumps(document)
    return parse_answer(hook(event), HookRun(status=status, stdout=text, stderr=err))


def own(event: HookEvent = PRE, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": str(event), **fields}}


def test_exit_status_2_blocks_with_the_text_on_standard_error():
    answer = said("", status=2, err="a key is in there\n")
    assert (answer.decision, answer.code) == (HookDecision.DENY, "HOOK-001")
    assert answer.reason == "a key is in there"


@each_row("out", ["{not json", '{"decision": "approve"}', "text"])
def test_exit_status_2_blocks_regardless_of_standard_output(out: str):
    assert said(out, status=2, err="no").decision is HookDecision.DENY


@each_row("status", [1, 3, 125, 255])
def test_another_exit_status_is_a_failure_and_no_opinion(status: int | None):
    run = HookRun(status=status, stderr="Traceback")
    answer = parse_answer(hook(), run)
    assert answer.decision is HookDecision.NONE
    assert answer.warning.startswith("The hook guard ")
    assert answer.warning.endswith("(Traceback).")
    blocked = parse_answer(hook(block=True), run)
    assert (blocked.decision, blocked.code) == (HookDecision.DENY, "HOOK-002")


NO_ANSWER = {
    "timed out": (HookRun(status=143, timed_out=True), "HOOK-003", "timed out after 60 s"),
    "not started": (HookRun(trouble="could not be started (x)"), "HOOK-002", "be started"),
    "wrote without end": (HookRun(status=143, trouble="wrote more than"), "HOOK-002", "wrote"),
    "not executable": (HookRun(status=126), "HOOK-002", "exit status 126"),
    "not found": (HookRun(status=127), "HOOK-002", "exit status 127"),
    "killed": (HookRun(status=137), "HOOK-002", "exit status 137"),
    "end not seen": (HookRun(status=None), "HOOK-002", "was killed"),
}


@pytest.mark.parametrize(("run", "code", "why"), NO_ANSWER.values(), ids=NO_ANSWER)
@pytest.mark.parametrize("event", HookEvent)
def test_a_guard_that_gives_no_answer_refuses(run: HookRun, code: str, why: str, event: HookEvent):
    answer = parse_answer(hook(event), run)
    assert why in answer.warning
    if event not in GUARDS:
        assert answer.decision is HookDecision.NONE
        return
    assert (answer.decision, answer.code) == (HookDecision.DENY, code)
    assert "a failure of the hook, not a refusal" in answer.reason
    assert parse_answer(hook(event, on_failure=OnFailure.WARN), run).decision is HookDecision.NONE


UNREADABLE = {
    "no JSON": "{not json",
    "a cut refusal": '{"decision": "block", "reason": "xxx',
    "deep": "{" * 100_000,
    "a list": '[{"decision": "block"}]',
    "text after it": '{"decision": "block"}\nDone.',
    "specific output is a text": {"hookSpecificOutput": "deny"},
    "new input is a number": {"decision": "block", "hookSpecificOutput": {"updatedInput": 7}},
    "continue is a text": {"continue": "false"},
    "several objects": '{"decision": "approve"}\n{"decision": "block"}',
    "a repeated key": '{"decision": "block", "decision": "approve"}',
    "a repeated key inside": '{"hookSpecificOutput": {"updatedInput": {"a": 1, "a": 2}}}',
    "text before it": 'Welcome!\n{"decision": "block"}',
    "a warning before it": 'warn {x}\n  {"hookSpecificOutput": {}}\nDone.',
    "the form of another event": {"hookSpecificOutput": {"decision": {"behavior": "deny"}}},
    "a decision outside": {"permissionDecision": "deny"},
}


@pytest.mark.parametrize("out", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("on_failure", OnFailure)
def test_an_unreadable_answer_of_a_guard_is_a_refusal(out: Any, on_failure: OnFailure):
    text = out if isinstance(out, str) else json.dumps(out)
    answer = parse_answer(hook(on_failure=on_failure), HookRun(status=0, stdout=text))
    assert (answer.decision, answer.code) == (HookDecision.DENY, "HOOK-002")
    assert "gave an answer that" in answer.reason


@each_row(
    ("event", "out"),
    [
        (HookEvent.USER_PROMPT_SUBMIT, "{not json"),
        (HookEvent.USER_PROMPT_SUBMIT, {"decision": "no"}),
        (HookEvent.PERMISSION_REQUEST, {"hookSpecificOutput": {"decision": "deny"}}),
        (HookEvent.PERMISSION_REQUEST, {"hookSpecificOutput": {"permissionDecision": "deny"}}),
        (HookEvent.PERMISSION_REQUEST, {"hookSpecificOutput": {"behavior": "deny"}}),
        (HookEvent.PERMISSION_REQUEST, {"decision": {"behavior": "deny"}}),
        (HookEvent.USER_PROMPT_SUBMIT, {"hookSpecificOutput": {"permissionDecision": "deny"}}),
        (HookEvent.PERMISSION_REQUEST, {"hookSpecificOutput": {"decision": {"behaviour": "deny"}}}),
        (
            HookEvent.PRE_TOOL_USE,
            {"hookSpecificOutput": {"hookEventName": "Stop", "decision": "block"}},
        ),
    ],
)
def test_every_guard_blocks_on_an_unreadable_answer(event: HookEvent, out: Any):
    assert said(out, event).decision is HookDecision.DENY


def test_an_answer_that_was_cut_before_it_began_is_a_refusal():
    run = HookRun(status=0, stdout=" " * 1000, cut=True)
    assert parse_answer(hook(), run).decision is HookDecision.DENY


def test_an_unreadable_answer_ends_the_turn():
    answer = said("{not json", HookEvent.STOP)
    assert (answer.decision, answer.warning) == (
        HookDecision.NONE,
        "The hook guard gave an answer that is not valid JSON.",
    )


def test_an_untrusted_hook_blocks_only_if_it_is_a_guard():
    assert failure_answer(hook(), UNTRUSTED, "was not run").decision is HookDecision.NONE
    blocked = failure_answer(hook(block=True), UNTRUSTED, "was not run")
    assert (blocked.decision, blocked.code) == (HookDecision.DENY, "HOOK-004")


@each_row(
    ("word", "opinion"),
    [
        ("allow", HookDecision.ALLOW),
        ("deny", HookDecision.DENY),
        ("ask", HookDecision.ASK),
        ("defer", HookDecision.DEFER),
        ("maybe", HookDecision.ASK),
        (["deny"], HookDecision.ASK),
    ],
)
def test_permission_decisions(word: Any, opinion: HookDecision):
    answer = said(own(permissionDecision=word, permissionDecisionReason="because"))
    assert answer.decision is opinion
    assert answer.reason


@each_row(
    ("word", "opinion"),
    [("block", HookDecision.DENY), ("approve", HookDecision.ALLOW), (None, HookDecision.NONE)],
)
def test_the_older_form(word: str | None, opinion: HookDecision):
    assert said({"decision": word, "reason": "because"}).decision is opinion


def test_the_newer_form_counts_where_both_are_given():
    both = {"decision": "approve", **own(permissionDecision="deny")}
    assert said(both).decision is HookDecision.DENY
    both = {"decision": "approve", **own(permissionDecision="ask")}
    assert said(both).decision is HookDecision.ASK


def test_a_refusal_counts_in_either_form():
    both = {"decision": "block", "reason": "no", **own(permissionDecision="allow")}
    assert (said(both).decision, said(both).reason) == (HookDecision.DENY, "no")


@each_row("text", ["All {fine}.", 'Wrote:\n{"a": 1}', "{}", "x\n{" * 1000])
def test_text_that_only_looks_like_an_answer_is_text(text: str):
    assert said(text).decision is HookDecision.NONE


def test_continue_false_stops_the_task_with_the_reason():
    answer = said({"continue": False, "stopReason": "enough", "decision": "approve"})
    assert (answer.decision, answer.reason) == (HookDecision.HALT, "enough")


def test_messages_context_and_new_input():
    answer = said(
        {
            "systemMessage": "for you",
            "unknown": 1,
            **own(additionalContext="for the model", updatedInput={"command": "ls"}),
        }
    )
    assert (answer.message, answer.context) == ("for you", "for the model")
    assert answer.updated_input == {"command": "ls"}
    assert answer.decision is HookDecision.NONE


def test_an_answer_for_another_event_is_ignored():
    other = own(HookEvent.POST_TOOL_USE, permissionDecision="allow")
    assert said(other) == HookAnswer()


@each_row("event", HookEvent)
def test_plain_text_is_context_only_where_that_is_the_custom(event: HookEvent):
    heeded = event in (HookEvent.SESSION_START, HookEvent.USER_PROMPT_SUBMIT)
    answer = said("All good.\n", event)
    assert answer == HookAnswer(context="All good." if heeded else "")


@each_row("event", HookEvent)
@each_row("way", ["status", "json"])
def test_only_some_events_can_be_blocked(event: HookEvent, way: str):
    if way == "status":
        answer = said("", event, status=2, err="no")
    else:
        answer = said({"decision": "block", "reason": "no"}, event)
    blocks = {"UserPromptSubmit", "PreToolUse", "PermissionRequest", "Stop", "SubagentStop"}
    if event in {*blocks, "PreCompact"}:
        assert (answer.decision, answer.reason) == (HookDecision.DENY, "no")
    elif event.is_after_tool:
        assert answer == HookAnswer(context="no")
    else:
        assert answer == HookAnswer(message="no")


def test_permission_requests_have_their_own_form():
    asked = HookEvent.PERMISSION_REQUEST
    decision = {"behavior": "deny", "message": "no", "updatedInput": {"a": 1}}
    answer = said(own(asked, decision=decision), asked)
    assert (answer.decision, answer.reason) == (HookDecision.DENY, "no")
    assert answer.updated_input == {"a": 1}


@each_row("key", ["updatedToolOutput", "updatedMCPToolOutput"])
def test_after_a_tool_its_output_can_be_replaced(key: str):
    after = HookEvent.POST_TOOL_USE
    assert said(own(after, **{key: "new"}), after).new_output == "new"
    assert said(own(after, **{key: {"a": 1}}), after).new_output == '{"a": 1}'
    assert said(own(**{key: "new"})).new_output is None


def received(decision: HookDecision, name: str = "guard", **fields: Any) -> HookAnswer:
    return HookAnswer(name=name, decision=decision, reason=f"{name}.", **fields)


@each_row(
    "document",
    [
        {"decision": "block", "reason": "x" * 100_000},
        {"continue": False, "stopReason": "x" * 100_000},
        own(permissionDecision="ask", permissionDecisionReason="x" * 100_000),
    ],
)
def test_no_reason_is_endless(document: dict[str, Any]):
    assert 0 < len(said(document).reason) <= 4_000


@given(st.lists(st.sampled_from(HookDecision), max_size=6), st.booleans())
def test_the_strictest_answer_wins_in_any_order(opinions: list[HookDecision], asked: bool):
    verdict = combine([received(each) for each in opinions], interactive=asked)
    order = ("halt", "deny", "defer", "ask", "allow")
    expected = next((word for word in order if word in opinions), "none")
    if expected == "defer":
        expected = "ask" if asked else "deny"
    assert verdict.decision == expected
    assert bool(verdict.code) is (expected in ("deny", "halt"))
    reordered = combine([received(each) for each in reversed(opinions)], interactive=asked)
    assert reordered.decision == expected


def test_of_several_new_inputs_the_last_in_the_file_counts_and_that_is_noted():
    verdict = combine(
        [
            received(HookDecision.NONE, "one", arguments={"a": 1}),
            received(HookDecision.NONE, "two"),
            received(HookDecision.NONE, "three", arguments={"a": 3}),
        ],
        interactive=True,
    )
    assert verdict.updated_input == {"a": 3}
    assert "one, three" in verdict.notes[0]
    alike = [received(HookDecision.NONE, name, arguments={"a": 1}) for name in ("one", "two")]
    assert combine(alike, interactive=True).notes == ()


def test_context_of_several_hooks_is_joined_and_says_whose_it_is():
    both = [
        received(HookDecision.NONE, "one", context="a"),
        received(HookDecision.NONE, "two", context="b"),
    ]
    assert combine(both, interactive=True).context == "[hook one] a\n[hook two] b"


def test_a_refusal_has_the_code_and_the_text_of_the_hook():
    denied = [
        received(HookDecision.DENY, "late", code="HOOK-003"),
        received(HookDecision.DENY, "guard", code="HOOK-001"),
    ]
    verdict = combine(denied, interactive=True)
    assert verdict.decision is HookDecision.DENY
    assert (verdict.code, verdict.reason) == ("HOOK-001", "late. guard.")
