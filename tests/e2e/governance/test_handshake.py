"""Mode and handshake: nothing is changed before an intent is selected and its context was read."""

import shutil

import pytest

from llm_server import OVERFLOWS, LlmServer, finish, gate, raw_call, say
from rookery.core.facts import Asked, CallStreamed, Condensed, Fact
from support.governed_session import FILE, Governed, at, choose, intents, read, run, wait, write

pytestmark = pytest.mark.usefixtures("unconfined")

WRONG, RIGHT = "src/api/user.py", "src/auth/jwt.py"


def test_without_intents_governance_does_nothing(ungoverned: Governed):
    reported = ungoverned.alone([write("a.py")])
    assert (reported.exit_code, reported.governance) == (0, None)
    assert ungoverned.text("a.py") == "new\n"
    assert not ungoverned.there(".orchestration")
    assert not any("intent" in name for name in reported.tools)
    assert not list((ungoverned.rookery.home / "config").glob("governance*"))


def test_nothing_runs_without_a_required_intent(ungoverned: Governed):
    ungoverned.settings('[governance]\nmode = "required"\n')
    reported = ungoverned.alone([write("a.py")])
    assert reported.code(0) == "REQ-011"
    assert "intents init" in " ".join(reported.refusal(0)["recovery"])
    assert not ungoverned.there("a.py")
    assert not ungoverned.there(".orchestration")
    assert reported.exit_code == 20


def test_refusals_lead_the_model_to_a_valid_selection(governed: Governed):
    governed.put("README.md", "Read me.\n")
    reported = governed.alone(
        [write(RIGHT, "too early\n")],
        [read("README.md")],
        [run("ls")],
        [choose("INT-999")],
        [choose("INT-002")],
        [choose("")],
        [choose("int-001")],
        [choose("INT-999")],
        [write(RIGHT, "in time\n")],
    )
    nothing_yet = ["REQ-003", "", "REQ-003"]
    assert reported.codes == [*nothing_yet, "REQ-006", "REQ-010", "HOOK-INT-001", "", "REQ-006", ""]
    early, unknown = reported.refusal(0), reported.refusal(3)
    assert (early["error_type"], early["selectable"]) == ("no_active_intent", ["INT-001"])
    assert "INT-001" in early["message"]
    assert "Read me." in reported.results[1]
    assert unknown["error_type"] == "intent_not_found"
    assert reported.refusal(4)["status"] == "PENDING"
    assert reported.refusal(5)["error_type"] == "missing_intent"
    told_id, _, context = reported.results[6].partition("<intent_context ")
    assert "INT-001" in told_id
    assert context.startswith('id="INT-001"')
    assert "<path>src/auth/**</path>" in context
    assert governed.text(RIGHT) == "in time\n"
    assert reported.exit_code == 0, reported.stderr
    assert reported.governance
    assert reported.governance["intent_id"] == "INT-001"
    assert (reported.governance["mutations"], reported.governance["blocked"]) == (1, 6)
    blocked = governed.of("blocked")[0]
    assert (blocked.tool_name, blocked.error_code) == ("write_to_file", "REQ-003")
    assert blocked.outcome == "blocked"
    [selected], [written] = governed.of("intent_selected"), governed.of("mutation")
    assert selected.intent_id == written.intent_id == "INT-001"
    assert selected.intent_digest
    assert governed.is_whole()


def test_settings_can_relax_the_selection_rules(governed: Governed):
    governed.settings(
        "[commands]\nread_only_without_intent = true\n[governance]\nauto_select_single = true\n"
    )
    reported = governed.alone([run("ls -a")], [run("touch made")], [choose("")], [write(RIGHT)])
    assert ".orchestration" in reported.results[0]
    assert reported.code(1) == "REQ-003"
    assert not governed.there("made")
    assert '<intent_context id="INT-001"' in reported.results[2]
    assert governed.there(RIGHT)


def test_a_selection_is_shown_as_one_line(governed: Governed):
    with LlmServer([choose()], [finish("That is all.")]) as server:
        done = governed.rookery.run("-p", *at(server), "go")
    assert done.returncode == 0
    about = [line for line in done.stderr.splitlines() if "INT-001" in line]
    assert len(about) == 1, done.stderr
    assert "intent_context" not in done.stderr
    assert "src/auth" not in done.stderr


def test_calls_in_the_same_message_as_a_selection_are_refused(
    governed: Governed,
):
    reported = governed.alone(
        [choose(), choose(), write(RIGHT)], [write(RIGHT)], [choose(), write("src/auth/b.py")]
    )
    assert reported.codes == ["", "", "REQ-003", "", "", ""]
    refusal = reported.refusal(2)
    assert (refusal["reason"], refusal["retryable"]) == ("context_not_seen", True)
    assert governed.text(RIGHT) == "new\n"
    assert governed.there("src/auth/b.py"), "to select the same again holds up nothing"
    assert [each.error_code for each in governed.of("blocked")] == ["REQ-003"]


def test_the_intent_is_enforced_and_resent_after_condensing(governed: Governed):
    governed.put("a.md", "a\n")
    reported = governed.alone(
        [choose()],
        [read("a.md")],
        [say("I looked."), read("a.md")],
        OVERFLOWS["anthropic-prompt"],
        [write(WRONG)],
    )
    again = reported.requests[4]
    assert again.count('<intent_context id=\\"INT-001\\"') == 1
    assert reported.codes[-1] == "REQ-001"
    assert not governed.there(WRONG)


def test_the_intent_is_resent_after_condensing_by_the_user(governed: Governed):
    governed.put("a.md", "a\n")
    person = governed.attended(
        [choose()], [read("a.md")], [wait()], [say("They chose.")], [write(WRONG)], [finish()]
    )

    def condensed(asked: Asked) -> str:
        person.condense()
        return ""

    with person:
        reported = person.follow(condensed, "message Go on.", "no")
    assert reported.of(Condensed)
    assert reported.requests[4].count('<intent_context id=\\"INT-001\\"') == 1
    assert reported.codes[-1] == "REQ-001"


def test_observe_mode_blocks_nothing_and_records_everything(governed: Governed):
    governed.settings('[governance]\nmode = "observe"\n')
    reported = governed.play([write("early.py")], [choose()], [write(WRONG)])
    assert reported.codes == ["", "", ""]
    assert reported.questions == []
    assert governed.there(WRONG)
    early, late = governed.of("mutation")
    assert (early.enforced, early.error_code) == (False, "REQ-003")
    assert (late.enforced, late.scope, late.error_code) == (False, "out_of_scope", "REQ-001")


def test_deleting_the_intents_unlocks_nothing(governed: Governed):
    def deletes(asked: Asked) -> str:
        shutil.rmtree(governed.root / ".orchestration")
        return "message They are gone."

    reported = governed.play([choose()], [wait()], [write(RIGHT)], [write("a.py")], book=[deletes])
    assert reported.codes[2:] == ["REQ-011", "REQ-011"]
    assert not governed.there(RIGHT)
    assert not governed.there("a.py")
    assert not governed.there(".orchestration")


def test_intents_added_later_apply_to_the_next_task(ungoverned: Governed):
    def makes(asked: Asked) -> str:
        ungoverned.put(FILE, intents())
        return "message They are there."

    with ungoverned.attended(
        [wait()], [write("a.py")], [finish()], [write("b.py")], [finish()]
    ) as person:
        first = person.follow(makes)
        second = person.follow()
    assert [first.code(1), second.code(2)] == ["", "REQ-003"]
    assert ungoverned.there("a.py")
    assert not ungoverned.there("b.py")


def test_a_call_is_not_checked_before_it_is_complete(governed: Governed):
    held = gate()
    half = raw_call("write_to_file", '{"path": "src/api/user.py", "con', held, 'tent": "new\\n"}')
    seen: list[Fact] = []
    streamed: list[CallStreamed] = []

    def watch(fact: Fact) -> None:
        if isinstance(fact, CallStreamed) and fact.arguments.endswith('"con'):
            assert not any(isinstance(each, Asked) for each in seen)
            assert governed.kinds() == ["intent_selected"]
            streamed.append(fact)
            held.open()
        seen.append(fact)

    reported = governed.play([choose()], [half], book=["no"], watch=watch)
    assert len(streamed) == 1
    assert [each.governance is not None for each in reported.questions] == [True]
    assert reported.codes[-1] == "REQ-001"


def test_a_run_can_start_with_an_intent(governed: Governed):
    reported = governed.alone([write(RIGHT)], [write(WRONG)], flags=["--intent", "int-001"])
    assert '<intent_context id=\\"INT-001\\"' in reported.requests[0]
    assert reported.codes == ["", "REQ-001"]
    assert governed.there(RIGHT)


def test_a_run_with_an_unusable_intent_ends_at_its_start(governed: Governed):
    with LlmServer([finish()]) as server:
        done = governed.rookery.run("-p", *at(server), "--intent", "INT-002", "go")
    assert (done.returncode, server.requests) == (22, [])
    assert "INT-002 is PENDING" in done.stderr


def test_governance_that_is_off_is_mentioned_once(governed: Governed):
    governed.settings('[governance]\nmode = "off"\n')
    with LlmServer([write(WRONG)], [finish()]) as server:
        done = governed.rookery.run("-p", *at(server), "go")
    assert done.returncode == 0
    assert done.stderr.lower().count("governance") == 1, done.stderr
    assert governed.there(WRONG)
    assert governed.records == []
