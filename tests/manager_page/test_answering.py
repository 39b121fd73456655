"""What a session asks is answered on the page, and reaches the model."""

import re

import pytest
from playwright.sync_api import expect

from llm_server import call, finish
from manager_page.bench import Manager, Project, Tab, Tabs
from manager_page.played_model import last_words

COMMAND = "printf 'one\\n' > made.txt && \\\n  cat made.txt   # and\tthen"
QUESTION = "Which currency?"


def question(**more: object) -> object:
    suggestions = [{"text": "Euro"}, {"text": "Yen"}]
    return call("ask_followup_question", question=QUESTION, follow_up=suggestions, **more)


def test_GATE_5_a_command_is_shown_whole_and_runs_once_it_is_approved(
    tab: Tab, manager: Manager, project: Project
):
    session = manager.start("Make a file", [call("execute_command", command=COMMAND)], [finish()])
    tab.open(session)
    ask = tab.ask("Run this command?")
    expect(ask.locator(".ask-command-line")).to_have_count(2)
    shown = "\n".join(ask.locator(".ask-command-line").all_inner_texts())
    assert re.sub(r"<tab>|\t", "\t", shown) == COMMAND
    assert not (project.path / "made.txt").exists()
    ask.get_by_role("button", name="Approve").click()
    expect(ask).to_have_count(0)
    expect(tab.state).to_contain_text("Done")
    assert (project.path / "made.txt").read_text() == "one\n"
    expect(tab.conversation.locator(".output")).to_contain_text("one")


def test_an_edit_is_shown_as_a_diff(tab: Tab, manager: Manager, project: Project):
    edit = call("edit", file_path="prices.py", old_string="/ 10", new_string="/ 100")
    session = manager.start(
        "Fix it", [call("read_file", path="prices.py"), edit], [finish()], [finish()]
    )
    tab.open(session)
    ask = tab.ask(re.compile("prices.py"))
    expect(ask.locator("tr.removed")).to_contain_text("price * by / 10")
    expect(ask.locator("tr.added")).to_contain_text("price * by / 100")
    ask.get_by_role("button", name="Approve").click()
    expect(tab.state).to_contain_text("Done")
    assert "/ 100" in (project.path / "prices.py").read_text()


def test_a_rejection_tells_the_model_why(tab: Tab, manager: Manager):
    session = manager.start(
        "Delete it", [call("execute_command", command="rm -rf build")], [finish("Left it.")]
    )
    tab.open(session)
    ask = tab.ask("Run this command?")
    ask.get_by_role("button", name="Reject").click()
    ask.get_by_label("Why not").fill("It is still needed")
    ask.get_by_role("button", name="Reject").click()
    assert "It is still needed" in last_words(manager.model.heard("Delete it", 2))
    expect(tab.conversation).to_contain_text("Left it.")


@pytest.mark.parametrize("how", ["suggestion", "words"])
def test_a_question_is_answered(tab: Tab, manager: Manager, how: str):
    prompt = f"Ask me, by {how}"
    session = manager.start(prompt, [question()], [finish("Thanks.")])
    tab.open(session)
    ask = tab.ask("The agent asks")
    expect(ask).to_contain_text(QUESTION)
    expect(ask.get_by_role("list", name="Suggested answers").get_by_role("button")).to_have_count(2)
    if how == "suggestion":
        ask.get_by_role("button", name="Yen").click()
    else:
        expect(tab.message).to_be_focused()
        tab.send("Neither: Crowns")
    answer = {"suggestion": "Yen", "words": "Neither: Crowns"}[how]
    assert answer in last_words(manager.model.heard(prompt, 2))
    expect(ask).to_have_count(0)
    expect(tab.conversation).to_contain_text("Thanks.")
    expect(tab.conversation).to_contain_text(answer)


def test_what_one_tab_answers_is_no_question_in_the_other(tabs: Tabs, manager: Manager):
    one, other = tabs.open(), tabs.open()
    session = manager.start("Ask both", [call("execute_command", command="touch made")], [finish()])
    for tab in (one, other):
        tab.open(session)
        expect(tab.ask()).to_have_count(1)
    one.ask().get_by_role("button", name="Approve").click()
    expect(other.ask()).to_have_count(0)
    expect(other.state).to_contain_text("Done")


def test_the_inbox_has_the_oldest_first_and_takes_answers(tab: Tab, manager: Manager):
    older = manager.start("Ask early", [question()], [finish("Early done.")])
    manager.at(older, "waiting_input")
    newer = manager.start("Ask late", [call("execute_command", command="touch made")], [finish()])
    manager.at(newer, "waiting_approval")
    tab.page.get_by_role("link", name="Inbox").first.click()
    cards = tab.page.locator(".inbox-card")
    expect(cards).to_have_count(2)
    expect(cards.nth(0)).to_contain_text("Ask early")
    expect(cards.nth(1)).to_contain_text("Ask late")
    expect(tab.page).to_have_title(re.compile(r"^\(2\)"))
    cards.nth(0).get_by_label("Your answer").fill("Pounds")
    cards.nth(0).get_by_role("button", name="Send").click()
    assert "Pounds" in last_words(manager.model.heard("Ask early", 2))
    card = tab.page.locator(".inbox-card", has_text="Ask late")
    card.get_by_role("button", name="Approve").click()
    manager.model.heard("Ask late", 2)
    expect(tab.page.locator(".inbox-card .ask-panel")).to_have_count(0)


def test_the_keys_lead_to_the_question_and_answer_it(tab: Tab, manager: Manager):
    session = manager.start(
        "Ask for keys", [call("execute_command", command="touch made")], [finish()]
    )
    manager.at(session, "waiting_approval")
    keys = tab.page.keyboard
    expect(tab.page.get_by_role("link", name="Inbox 1 waiting")).to_be_visible()
    for key in "gn":
        keys.press(key)
    ask = tab.ask("Run this command?")
    approve = ask.get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    for _ in range(60):
        keys.press("Tab")
        if approve.evaluate("button => button === document.activeElement"):
            break
    expect(approve).to_be_focused()
    keys.press("?")
    dialog = tab.page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    keys.press("a")  # not while a dialog is open
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    expect(approve).to_be_focused()
    keys.press("a")
    expect(tab.state).to_contain_text("Done")
