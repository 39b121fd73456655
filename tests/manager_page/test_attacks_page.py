"""What others wrote so that the page shows something else, or stops."""

from playwright.sync_api import expect

from llm_server import call, finish, say
from manager_page.bench import Manager, Tab

UNSEEN = "echo one\r\nrm old\ufe0f new\u00a0er" + "\u2003" * 300 + "; echo run"
SEEN = "echo one␍\nrm old<U+FE0F> new<U+00A0>er<300 blanks>; echo run"


def test_GATE_5_what_is_not_seen_of_a_command_is_drawn(tab: Tab, manager: Manager):
    session = manager.start("Run it", [call("execute_command", command=UNSEEN)], [finish()])
    tab.open(session)
    ask = tab.ask("Run this command?")
    expect(ask).to_be_visible()
    assert SEEN in ask.locator(".ask-command").inner_text()


def test_OUT_1_a_heap_of_marks_does_not_freeze_the_page(tab: Tab, manager: Manager):
    question = call("ask_followup_question", question="Well?", follow_up=[{"text": "Yes"}])
    session = manager.start("Heap", [say("a" + "\u0301" * 100_000), question])
    manager.at(session, "waiting_input")
    tab.open(session)
    expect(tab.conversation.locator(".unseen").first).to_contain_text("marks more", timeout=5_000)
    expect(tab.ask("The agent asks")).to_be_visible(timeout=2_000)
