"""What an intent allows is asked about, written down, and shown."""

import re

import pytest
from playwright.sync_api import expect

from llm_server import call, finish
from support.intent_files import SPEC_EXAMPLE, laid_out
from support.manager_page import Manager, Project, Tab

INSIDE = "src/auth/cents.py"
NAME = "JWT authentication migration"


@pytest.fixture(scope="module")
def governed(project: Project) -> Project:
    text = SPEC_EXAMPLE.replace("2026-03-31", "2099-03-31")
    laid_out(project.path, text)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "intents")
    return project


def test_intents_their_trace_and_blame_are_shown(tab: Tab, manager: Manager, governed: Project):
    session = manager.start(
        "Work in scope",
        [call("select_active_intent", intent_id="INT-001")],
        [call("write_to_file", path=INSIDE, content="CENTS = 100\n")],
        [call("execute_command", command="rm -r src")],
        auto_approve=False,
        intent="INT-001",
    )
    tab.open(session)
    tab.ask("cents.py").get_by_role("button", name=re.compile("Approve|Allow once")).click()
    expect(tab.ask()).to_contain_text("rm -r src")
    tab.page.get_by_role("link", name="Governance").click()
    card = tab.page.locator("main .card", has_text=NAME)
    expect(card).to_contain_text("src/auth/**")
    expect(card).to_contain_text("Unit tests under tests/auth pass.")
    card.get_by_role("button", name="1 change").click()
    record = tab.page.get_by_role("list", name="Records, newest first").get_by_role("listitem")
    expect(record.filter(has_text=INSIDE).first).to_contain_text("INT-001")
    tab.page.get_by_role("button", name=INSIDE).first.click()
    expect(tab.page.get_by_role("tabpanel")).to_contain_text("CENTS = 100")
    expect(tab.page.get_by_role("tabpanel")).to_contain_text("INT-001")


def test_a_step_out_of_scope_tells_of_which_intent(tab: Tab, manager: Manager, governed: Project):
    session = manager.start(
        "Work out of scope",
        [call("select_active_intent", intent_id="INT-001")],
        [call("write_to_file", path="other.py", content="x = 1\n")],
        [finish("Left alone.")],
        auto_approve=True,
        intent="INT-001",
    )
    tab.open(session)
    ask = tab.ask(re.compile("other.py"))
    for words in ("INT-001", NAME, "src/auth/**", "out of scope"):
        expect(ask).to_contain_text(words)
    ask.get_by_role("button", name=re.compile("^Reject( r)?$")).click()
    ask.get_by_label("Reason for rejecting").press("Enter")
    expect(tab.conversation).to_contain_text("Left alone.")
    assert not (governed.path / "other.py").exists()
