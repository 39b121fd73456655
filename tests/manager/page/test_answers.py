"""What a session asks is answered on the page, and reaches the model."""

import re

from playwright.sync_api import expect

from llm_server import call, finish, gate, say
from support.manager_page import Manager, Project, Tab, Tabs, until
from support.scripted_model import last_words

COMMAND = "printf 'one\\n' > made.txt && \\\n  cat made.txt   # and\tthen"
QUESTION = "Which currency?"
UNSEEN = "echo one\r\nrm old\ufe0f new\u00a0er" + "\u2003" * 300 + "; echo run"
SEEN = "echo one␍\nrm old<U+FE0F> new<U+00A0>er<300 blanks>; echo run"


def question(**more: object) -> object:
    suggestions = [{"text": "Euro"}, {"text": "Yen"}]
    return call("ask_followup_question", question=QUESTION, follow_up=suggestions, **more)


def test_a_command_is_shown_whole_and_runs_once_it_is_approved(
    tab: Tab, manager: Manager, project: Project
):
    command = call("execute_command", command=COMMAND)
    session = manager.start("Make a file", [command], [command], [finish()])
    tab.open(session)
    ask = tab.ask("Run this command?")
    expect(ask.locator(".ask-command-line")).to_have_count(2)
    shown = "\n".join(ask.locator(".ask-command-line").all_inner_texts())
    assert re.sub(r"<tab>|\t", "\t", shown) == COMMAND
    assert not (project.path / "made.txt").exists()
    ask.get_by_role("button", name="Approve").click()
    expect(tab.conversation.locator(".output")).to_have_text(["one\n"])
    assert (project.path / "made.txt").read_text() == "one\n"
    ask.get_by_role("button", name="Approve").click()  # what was allowed once is asked about again
    expect(ask).to_have_count(0)
    expect(tab.state).to_contain_text("Done")
    expect(tab.conversation.locator(".output")).to_have_text(["one\n", "one\n"])


def test_what_is_not_seen_of_a_command_is_drawn(tab: Tab, manager: Manager):
    session = manager.start("Run it", [call("execute_command", command=UNSEEN)], [finish()])
    tab.open(session)
    ask = tab.ask("Run this command?")
    expect(ask).to_be_visible()
    assert SEEN in ask.locator(".ask-command").inner_text()


def test_what_is_longer_than_the_screen_is_read_before_it_is_approved(tab: Tab, manager: Manager):
    lines = "\n".join(f"line {number}" for number in range(300))
    write = call("write_to_file", path="long.txt", content=lines)
    session = manager.start("Write much", [write], [finish()])
    tab.open(session)
    ask = tab.ask(re.compile("long.txt"))
    approve = ask.get_by_role("button", name="Approve")
    to_end = ask.get_by_role("button", name="Scroll to the end first")
    expect(to_end).to_be_visible()
    # for half a second nothing can be approved, which is long over for the page when this is
    tab.page.evaluate("new Promise((done) => setTimeout(done, 1_000))")
    expect(approve).to_be_disabled()
    expect(ask.get_by_role("button", name="Reject")).to_be_enabled()
    to_end.click()
    expect(ask.get_by_text("line 299")).to_be_in_viewport()
    approve.click()
    expect(tab.state).to_contain_text("Done")


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
    ask.get_by_label("Reason for rejecting").fill("It is still needed")
    ask.get_by_role("button", name="Reject").click()
    assert "It is still needed" in last_words(manager.model.heard("Delete it", 2))
    expect(tab.conversation).to_contain_text("Left it.")


def test_questions_are_answered_by_words_and_by_a_suggestion(tab: Tab, manager: Manager):
    session = manager.start("Ask me twice", [question()], [question()], [finish("Thanks.")])
    tab.open(session)
    ask = tab.ask("Question from the agent")
    expect(ask).to_contain_text(QUESTION)
    expect(tab.message).to_be_focused()
    tab.send("Neither: Crowns")
    assert "Neither: Crowns" in last_words(manager.model.heard("Ask me twice", 2))
    expect(tab.conversation).to_contain_text("Neither: Crowns")
    suggested = ask.get_by_role("list", name="Suggested answers").get_by_role("button")
    expect(suggested).to_have_count(2)
    suggested.filter(has_text="Yen").click()
    assert "Yen" in last_words(manager.model.heard("Ask me twice", 3))
    expect(ask).to_have_count(0)
    expect(tab.conversation).to_contain_text("Yen")
    expect(tab.conversation).to_contain_text("Thanks.")


def test_two_tabs_follow_at_once_and_what_one_answers_is_no_question_in_the_other(
    tabs: Tabs, manager: Manager
):
    one, other = tabs.open(), tabs.open()
    middle = gate()
    session = manager.start(
        "Speak to two",
        [say("First ", middle, "and second."), call("execute_command", command="touch made")],
        [finish()],
    )
    for tab in (one, other):
        tab.open(session)
        expect(tab.conversation).to_contain_text("First")
    middle.open()
    for tab in (one, other):
        expect(tab.conversation).to_contain_text("First and second.")
        expect(tab.ask()).to_have_count(1)
    one.ask().get_by_role("button", name="Approve").click()
    for tab in (one, other):
        expect(tab.ask()).to_have_count(0)
        expect(tab.state).to_contain_text("Done")


def test_the_inbox_has_the_oldest_first_and_each_gets_its_own_answer(tab: Tab, manager: Manager):
    command = call("execute_command", command="touch made")
    prompts = ("Ask early", "Ask for leave", "Ask late")
    for prompt, asked in zip(prompts, (question(), command, question()), strict=True):
        session = manager.start(prompt, [asked], [finish()])
        manager.at(session, "waiting_input", "waiting_approval")
    tab.page.get_by_role("link", name="Inbox").first.click()
    cards = tab.page.locator(".inbox-card")
    expect(cards).to_contain_text(list(prompts))
    expect(tab.page).to_have_title(re.compile(r"^\(3\)"))
    early, leave, late = (tab.page.locator(".inbox-card", has_text=prompt) for prompt in prompts)
    late.get_by_label("Your answer").fill("Pounds")
    late.get_by_role("button", name="Send").click()
    assert "Pounds" in last_words(manager.model.heard("Ask late", 2))
    leave.get_by_role("button", name="Approve").click()
    manager.model.heard("Ask for leave", 2)
    assert len(manager.model.asked("Ask early")) == 1
    early.get_by_role("button", name="Yen").click()
    assert "Yen" in last_words(manager.model.heard("Ask early", 2))
    expect(tab.page.locator(".inbox-card .ask-panel")).to_have_count(0)


def test_the_keys_lead_to_the_question_and_answer_it(tab: Tab, manager: Manager):
    session = manager.start(
        "Ask for keys", [call("execute_command", command="touch made")], [finish()]
    )
    manager.at(session, "waiting_approval")
    keys = tab.page.keyboard
    expect(tab.page.get_by_role("link", name="Inbox 1 waiting")).to_be_visible()
    ask = tab.ask("Run this command?")
    approve = ask.get_by_role("button", name="Approve")

    def go_there() -> bool:
        for key in "gn":  # the second is to come within a second
            keys.press(key)
        return ask.is_visible()

    until(go_there, "the session that asks")
    expect(approve).to_be_enabled()
    for _ in range(60):
        keys.press("Tab")
        if approve.evaluate("button => button === document.activeElement"):
            break
    expect(approve).to_be_focused()
    keys.press("?")
    dialog = tab.page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    keys.press("a")  # not while a dialog is open
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    expect(approve).to_be_focused()
    keys.press("a")
    expect(tab.state).to_contain_text("Done")


def test_a_held_key_answers_one_question_only(tab: Tab, manager: Manager, project: Project):
    touch = [call("execute_command", command=f"touch held-{name}") for name in ("one", "two")]
    session = manager.start("Hold a key", [touch[0]], [touch[1]], [finish()])
    tab.open(session)
    approve = tab.ask("Run this command?").get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    tab.page.keyboard.down("a")
    expect(tab.ask("Run this command?")).to_contain_text("held-two")
    expect(approve).to_be_enabled()
    for _ in range(5):
        tab.page.keyboard.down("a")
    expect(tab.message).to_have_value("aaaaa")  # they went to the composer
    expect(approve).to_be_enabled()
    assert (project.path / "held-one").exists()
    assert not (project.path / "held-two").exists()
    tab.page.keyboard.up("a")


def test_a_held_key_answers_one_question_of_the_inbox_only(tab: Tab, manager: Manager):
    for name in ("early", "late"):
        session = manager.start(
            f"Ask {name}", [call("execute_command", command=f"touch {name}")], [finish()]
        )
        manager.at(session, "waiting_approval")
    tab.go("inbox")
    asks = tab.page.locator(".inbox-card .ask-panel")
    expect(asks).to_have_count(2)
    expect(asks.first.get_by_role("button", name="Approve")).to_be_enabled()
    tab.page.keyboard.down("a")
    expect(asks).to_have_count(1)
    for _ in range(5):
        tab.page.keyboard.down("a")
    tab.page.keyboard.up("a")
    tab.page.evaluate("new Promise((done) => setTimeout(done, 1_000))")
    expect(asks).to_have_count(1)
    expect(asks).to_contain_text("touch late")


def test_words_typed_after_an_answer_go_to_the_composer(tab: Tab, manager: Manager):
    late = gate()
    session = manager.start(
        "Type on", [call("execute_command", command="touch one")], [say(late, "Done."), finish()]
    )
    tab.open(session)
    tab.ask("Run this command?").get_by_role("button", name="Approve").click()
    words = "yes, stop as soon as it is easy"
    tab.page.keyboard.type(words)
    expect(tab.message).to_have_value(words)
    expect(tab.message).to_be_focused()
    expect(tab.state).to_contain_text("Working")
    late.open()
    expect(tab.page.get_by_role("heading", name="Type on")).to_be_visible()


def test_words_typed_without_a_field_change_nothing(tab: Tab, manager: Manager):
    session = manager.start(
        "Type aside", [call("execute_command", command="touch one")], [finish()]
    )
    tab.open(session)
    ask = tab.ask("Run this command?")
    expect(ask.get_by_role("button", name="Approve")).to_be_enabled()
    tab.page.evaluate("document.activeElement.blur()")
    tab.page.keyboard.type("as easy as that, yes", delay=40)
    tab.page.evaluate("new Promise((done) => setTimeout(done, 600))")
    expect(ask.get_by_role("button", name="Approve")).to_be_enabled()
    expect(tab.page.get_by_role("heading", name="Type aside")).to_be_visible()
    expect(tab.state).to_contain_text("approval")


def test_a_stopped_session_leaves_the_focus_in_the_composer(tab: Tab, manager: Manager):
    session = manager.start("Stop me", [say(gate(), "Never.")], [finish()])
    tab.open(session)
    tab.button("Stop", exact=True).focus()
    tab.page.keyboard.press("Enter")
    expect(tab.state).to_contain_text("Stopped")
    expect(tab.message).to_be_focused()
