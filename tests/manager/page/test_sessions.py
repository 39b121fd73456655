"""Sessions on the page: start, watch, answer, rename, export, fork and restore."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from llm_server import call, finish, gate, problem, say, status, think, usage
from support.manager_page import PATIENCE, Manager, Project, Tab, Tabs, until
from support.scripted_model import last_words

LONG = "word " * 400
COMMAND = "printf 'one\\n' > made.txt && \\\n  cat made.txt   # and\tthen"
UNSEEN = "echo one\r\nrm old\ufe0f new\u00a0er" + "\u2003" * 300 + "; echo run"
SEEN = "echo one␍\nrm old<U+FE0F> new<U+00A0>er<300 blanks>; echo run"
TYPED = "yes, stop as soon as it is easy"


def command(line: str) -> Any:
    return call("execute_command", command=line)


def question() -> Any:
    suggestions = [{"text": "Euro"}, {"text": "Yen"}]
    return call("ask_followup_question", question="Which currency?", follow_up=suggestions)


def wait(tab: Tab, milliseconds: int) -> None:
    """Wait by the page's own clock, to check that nothing happens meanwhile."""
    tab.page.evaluate("most => new Promise((done) => setTimeout(done, most))", milliseconds)


def test_a_session_is_started_from_the_form_and_streams(tab: Tab, manager: Manager):
    middle = gate()
    manager.model.plays(
        "Explain rounding",
        [
            usage(11_000, 1_000),
            think("Hm, cents."),
            say("Prices are **rou", middle, "nded** to cents."),
            finish("Told."),
        ],
    )
    tab.page.get_by_role("link", name="New session").first.click()
    tab.button("Start").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("Write a prompt")
    tab.page.get_by_label("Prompt").fill("Explain rounding")
    tab.go("inbox")
    tab.go("new")
    expect(tab.page.get_by_label("Prompt")).to_have_value("Explain rounding")
    tab.button("Start").click()
    middle.wait_until_reached(PATIENCE)
    expect(tab.conversation).to_contain_text("Prices are")
    expect(tab.state).to_contain_text("Working")
    expect(tab.conversation).not_to_contain_text("to cents.")
    middle.open()
    expect(tab.conversation).to_contain_text("Told.")
    expect(tab.conversation.locator("strong")).to_have_text("rounded")
    expect(tab.state).to_contain_text("Done")
    expect(tab.page.locator(".session-head")).to_contain_text("12k tokens")
    thought = tab.conversation.get_by_role("button", name="Thought")
    expect(thought).to_have_attribute("aria-expanded", "false")
    thought.click()
    expect(tab.conversation.locator(".thought .prose")).to_have_text("Hm, cents.")
    listed = tab.page.get_by_role("complementary", name="Sessions").get_by_role("listitem")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("Explain rounding")


def test_a_session_is_stopped_resumed_and_retried(tab: Tab, manager: Manager):
    refused = status(400, problem("No such thing.", "invalid_request_error"))
    session = manager.start("Go slowly", [say("Half a ", gate())], refused, [finish("Whole.")])
    tab.open(session)
    expect(tab.conversation).to_contain_text("Half a")
    tab.button("Stop", exact=True).focus()
    tab.page.keyboard.press("Enter")
    expect(tab.state).to_contain_text("Stopped")
    expect(tab.message).to_be_focused()
    tab.button("Resume").click()
    ask = tab.ask("The request failed")
    expect(tab.conversation).to_contain_text("No such thing.")
    expect(tab.state).to_contain_text("Failed")
    ask.get_by_role("button", name="Retry").click()
    expect(tab.conversation).to_contain_text("Whole.")
    expect(ask).to_have_count(0)
    expect(tab.state).to_contain_text("Done")


def test_two_tabs_follow_at_once_and_a_reload_neither_loses_nor_repeats_rows(
    tabs: Tabs, manager: Manager
):
    one, other = both = tabs.open(), tabs.open()
    first, second = gate(), gate()
    session = manager.start(
        "Speak to two",
        [say(LONG, first, "middle ", LONG, second, "end."), command("touch two")],
        [finish()],
    )
    for tab in both:
        tab.open(session)
    first.wait_until_reached(PATIENCE)
    other.page.reload()
    for tab in both:
        expect(tab.conversation.locator(".answer")).to_contain_text("word word")
    first.open()
    second.wait_until_reached(PATIENCE)
    for tab in both:
        expect(tab.conversation).to_contain_text("middle")
    other.page.reload()
    second.open()
    for tab in both:
        expect(tab.ask()).to_have_count(1)
        expect(tab.conversation.locator(".answer .prose")).to_have_text(
            f"{LONG}middle {LONG}end.", use_inner_text=False
        )
    one.ask().get_by_role("button", name="Approve").click()
    for tab in both:
        expect(tab.ask()).to_have_count(0)
        expect(tab.state).to_contain_text("Done")


def test_a_message_is_queued_edited_and_dropped(tab: Tab, manager: Manager):
    busy = gate()
    session = manager.start("Be busy", [say("Working ", busy, "on it."), finish()], [finish()])
    tab.open(session)
    busy.wait_until_reached(PATIENCE)
    waiting = tab.page.get_by_role("list", name="Queued messages").get_by_role("listitem")
    tab.send("Mind the tests")
    expect(waiting).to_contain_text(["Mind the tests"])
    tab.send("And the docs")
    expect(waiting).to_have_count(2)
    waiting.first.get_by_role("button", name="Edit").click()
    waiting.first.get_by_label("Queued message").fill("Mind the linter")
    waiting.first.get_by_role("button", name="Save").click()
    expect(waiting.first).to_contain_text("Mind the linter")
    waiting.last.get_by_role("button", name="Delete").click()
    expect(waiting).to_have_count(1)
    busy.open()
    received = last_words(manager.model.received("Be busy", 2))
    assert "Mind the linter" in received
    assert "Mind the tests" not in received
    assert "And the docs" not in received
    expect(waiting).to_have_count(0)
    expect(tab.conversation).to_contain_text("Mind the linter")


def test_an_approval_covers_only_the_action_that_was_shown_in_full(
    tab: Tab, manager: Manager, project: Project
):
    late = gate()
    lines = "\n".join(f"line {number}" for number in range(300))
    session = manager.start(
        "Ask for everything",
        [command(COMMAND)],
        [command(COMMAND)],
        [say(late, "Now more."), call("write_to_file", path="long.txt", content=lines)],
        [
            call("read_file", path="prices.py"),
            call("edit", file_path="prices.py", old_string="/ 10", new_string="/ 100"),
        ],
        [command(UNSEEN)],
        [finish("Left it.")],
    )
    tab.open(session)
    keys, output = tab.page.keyboard, tab.conversation.locator(".output")

    ask = tab.ask("Run this command?")
    approve = ask.get_by_role("button", name="Approve")
    expect(ask.locator(".ask-command-line")).to_have_count(2)
    shown = "\n".join(ask.locator(".ask-command-line").all_inner_texts())
    assert re.sub(r"<tab>|\t", "\t", shown) == COMMAND
    expect(approve).to_be_enabled()
    assert not (project.path / "made.txt").exists()
    keys.down("a")
    expect(output).to_have_text(["one\n"])
    expect(approve).to_be_enabled()  # an action approved once is asked about again
    for _ in range(5):
        keys.down("a")  # a held key answers one question only
    expect(tab.message).to_have_value("aaaaa")
    keys.up("a")
    expect(approve).to_be_enabled()
    expect(output).to_have_count(1)
    tab.message.fill("")

    approve.click()
    keys.type(TYPED)  # text typed after an answer is a message, not another answer
    expect(tab.message).to_have_value(TYPED)
    expect(tab.message).to_be_focused()
    expect(tab.state).to_contain_text("Working")
    expect(output).to_have_text(["one\n", "one\n"])
    tab.message.fill("")
    late.open()

    ask = tab.ask(re.compile("long.txt"))
    approve = ask.get_by_role("button", name="Approve")
    to_end = ask.get_by_role("button", name="Scroll to the end first")
    expect(to_end).to_be_visible()
    wait(tab, 1_000)  # the half second in which nothing can be approved is over
    expect(approve).to_be_disabled()
    expect(ask.get_by_role("button", name="Reject")).to_be_enabled()
    to_end.click()
    expect(ask.get_by_text("line 299")).to_be_in_viewport()
    approve.click()

    ask = tab.ask(re.compile("prices.py"))
    expect(ask.locator("tr.removed")).to_contain_text("price * by / 10")
    expect(ask.locator("tr.added")).to_contain_text("price * by / 100")
    ask.get_by_role("button", name="Approve").click()

    ask = tab.ask("Run this command?")
    expect(ask).to_be_visible()
    assert "/ 100" in (project.path / "prices.py").read_text()
    assert SEEN in ask.locator(".ask-command").inner_text()
    ask.get_by_role("button", name="Reject").click()
    ask.get_by_label("Reason for rejecting").fill("It is still needed")
    ask.get_by_role("button", name="Reject").click()
    assert "It is still needed" in last_words(manager.model.received("Ask for everything", 6))
    expect(tab.conversation).to_contain_text("Left it.")


def test_keys_open_a_question_and_answer_it(tab: Tab, manager: Manager):
    prompt = "Ask for keys"
    session = manager.start(
        prompt, [command("touch keys")], [question()], [question()], [finish("Thanks.")]
    )
    manager.at(session, "waiting_approval")
    keys = tab.page.keyboard
    expect(tab.page.get_by_role("link", name="Inbox 1 waiting")).to_be_visible()
    ask = tab.ask("Run this command?")
    approve = ask.get_by_role("button", name="Approve")

    def go_there() -> bool:
        for key in "gn":  # the second key must follow within a second
            keys.press(key)
        return ask.is_visible()

    until(go_there, "the session that asks")
    expect(approve).to_be_enabled()
    tab.page.evaluate("document.activeElement.blur()")
    keys.type("as easy as that, yes", delay=40)  # typed text does not trigger keys
    wait(tab, 1_200)  # a key within a second would belong to the typed words
    expect(approve).to_be_enabled()
    expect(tab.page.get_by_role("heading", name=prompt)).to_be_visible()
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

    ask = tab.ask("Question from the agent")
    expect(ask).to_contain_text("Which currency?")
    expect(tab.message).to_be_focused()
    tab.send("Neither: Crowns")
    assert "Neither: Crowns" in last_words(manager.model.received(prompt, 3))
    expect(tab.conversation).to_contain_text("Neither: Crowns")
    suggested = ask.get_by_role("list", name="Suggested answers").get_by_role("button")
    expect(suggested).to_have_count(2)
    suggested.filter(has_text="Yen").click()
    assert "Yen" in last_words(manager.model.received(prompt, 4))
    expect(ask).to_have_count(0)
    expect(tab.conversation).to_contain_text("Yen")
    expect(tab.conversation).to_contain_text("Thanks.")


def test_the_inbox_lists_the_oldest_first_and_each_question_gets_its_own_answer(
    tab: Tab, manager: Manager
):
    asked = {
        "Ask for leave": command("touch leave"),
        "Ask for more": command("touch more"),
        "Ask early": question(),
        "Ask late": question(),
    }
    for prompt, asks in asked.items():
        session = manager.start(prompt, [asks], [finish()])
        manager.at(session, "waiting_input", "waiting_approval")
    tab.page.get_by_role("link", name="Inbox").first.click()
    expect(tab.page.locator(".inbox-card")).to_contain_text(list(asked))
    expect(tab.page).to_have_title(re.compile(r"^\(4\)"))
    leave, more, early, late = (tab.page.locator(".inbox-card", has_text=each) for each in asked)
    cards = tab.page.get_by_role("region", name="Questions").locator(".inbox-card")
    expect(leave.get_by_role("button", name="Approve")).to_be_enabled()
    expect(more).to_contain_text("touch more")  # folded, it shows what is asked on one line
    expect(more.get_by_role("button", name="Approve")).to_have_count(0)
    tab.page.keyboard.down("a")
    expect(cards).to_have_count(3)
    for _ in range(5):
        tab.page.keyboard.down("a")  # a held key answers one question only
    tab.page.keyboard.up("a")
    expect(more.get_by_role("button", name="Approve")).to_be_enabled()  # the next one unfolds
    tab.page.keyboard.press("a")  # and pressing the key again does not answer it
    wait(tab, 1_000)
    expect(cards).to_have_count(3)
    for card in (late, early):
        card.get_by_role("button", expanded=False).click()
    late.get_by_label("Your answer").fill("Pounds")
    late.get_by_role("button", name="Send").click()
    assert "Pounds" in last_words(manager.model.received("Ask late", 2))
    assert [len(manager.model.asked(each)) for each in asked] == [2, 1, 1, 2]
    more.get_by_role("button", name="Approve").click()
    manager.model.received("Ask for more", 2)
    early.get_by_role("button", name="Yen").click()
    assert "Yen" in last_words(manager.model.received("Ask early", 2))
    expect(tab.page.locator(".inbox-card .ask-panel")).to_have_count(0)


def test_sessions_are_found_renamed_and_archived(tab: Tab, manager: Manager):
    session = manager.start("Paint the shed", [finish()])
    manager.start("Mend the roof", [finish()])
    side = tab.page.get_by_role("complementary", name="Sessions")
    expect(side.get_by_role("listitem")).to_have_count(2)
    tab.page.keyboard.press("/")
    search = tab.page.get_by_label("Search sessions")
    expect(search).to_be_focused()
    tab.page.keyboard.type("shed paint")
    expect(side.get_by_role("listitem")).to_have_count(1)
    expect(side.get_by_role("listitem")).to_contain_text("Paint the shed")
    search.fill("")
    tab.open(session)
    tab.button("Paint the shed", exact=True).click()
    field = tab.page.get_by_label("Session name")
    expect(field).to_be_focused()
    field.fill("Cents")
    field.press("Enter")
    expect(side.get_by_role("link", name="Cents")).to_be_visible()
    expect(tab.page.get_by_role("heading", name="Cents")).to_be_visible()
    expect(tab.state).to_contain_text("Done")
    tab.menu("Archive")
    expect(side.get_by_role("link", name="Cents")).to_have_count(0)
    side.get_by_role("button", name="Archived 1").click()
    expect(side.get_by_role("link", name="Cents")).to_be_visible()
    tab.menu("Unarchive")
    expect(side.get_by_role("button", name="Archived")).to_have_count(0)
    assert manager.rows()[session]["name"] == "Cents"


def test_a_session_is_exported_forked_and_restored(tab: Tab, manager: Manager, project: Project):
    made = project.path / "kept.txt"
    session = manager.start(
        "Write twice",
        [say("A good start."), call("write_to_file", path="kept.txt", content="first\n")],
        [call("write_to_file", path="kept.txt", content="second\n")],
        [finish("Old end.")],
        [finish("New end.")],
        auto_approve=True,
    )
    tab.open(session)
    expect(tab.state).to_contain_text("Done")
    with tab.page.expect_download() as download:
        tab.menu("Export as Markdown")
    assert download.value.suggested_filename.endswith(".md")
    saved = Path(download.value.path()).read_text()
    assert "Write twice" in saved
    assert "A good start." in saved

    said = tab.conversation.locator(".row", has_text="A good start.")
    said.hover()
    said.get_by_role("button", name="Fork from here").click()
    expect(tab.page).not_to_have_url(re.compile(session))
    expect(tab.conversation).to_contain_text("A good start.")
    expect(tab.conversation).not_to_contain_text("Old end.")
    tab.send("Go another way")
    expect(tab.conversation).to_contain_text("New end.")
    expect(tab.page.get_by_role("complementary").get_by_role("listitem")).to_have_count(2)
    tab.open(session)
    expect(tab.conversation).to_contain_text("Old end.")
    expect(tab.conversation).not_to_contain_text("New end.")

    assert made.read_text() == "second\n"
    tab.menu("Checkpoints")
    moments = tab.page.get_by_role("list", name="Checkpoints, newest first").get_by_role("listitem")
    expect(moments).not_to_have_count(0)
    moments.first.get_by_role("button").click()
    dialog = tab.page.get_by_role("dialog", name="Restore this checkpoint?")
    expect(dialog).to_contain_text("kept.txt")
    assert made.read_text() == "second\n"
    dialog.get_by_role("button", name=re.compile("files", re.IGNORECASE)).click()
    expect(dialog).to_have_count(0)
    until(lambda: not made.exists() or made.read_text() == "first\n", "the first text")
    tab.open(session)
    expect(tab.conversation).to_contain_text("Old end.")
