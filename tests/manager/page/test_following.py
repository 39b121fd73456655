"""A session is started on the page, watched while it works, and told to stop and to go on."""

from playwright.sync_api import expect

from llm_server import finish, gate, problem, say, status, think, usage
from support.manager_page import PATIENCE, Manager, Tab
from support.scripted_model import last_words

LONG = "word " * 400


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
    tab.page.get_by_label("Prompt").fill("Explain rounding")
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


def test_the_form_says_what_is_missing_and_keeps_what_was_written(tab: Tab):
    tab.go("new")
    tab.button("Start").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("Write a prompt")
    tab.page.get_by_label("Prompt").fill("Half a thought")
    tab.go("inbox")
    tab.go("new")
    expect(tab.page.get_by_label("Prompt")).to_have_value("Half a thought")


def test_a_session_is_stopped_and_resumed(tab: Tab, manager: Manager):
    session = manager.start("Go slowly", [say("Half a ", gate())], [finish("Whole.")])
    tab.open(session)
    expect(tab.conversation).to_contain_text("Half a")
    tab.button("Stop", exact=True).click()
    expect(tab.state).to_contain_text("Stopped")
    tab.button("Resume").click()
    expect(tab.conversation).to_contain_text("Whole.")
    expect(tab.state).to_contain_text("Done")


def test_a_failed_request_is_tried_again(tab: Tab, manager: Manager):
    refused = status(400, problem("No such thing.", "invalid_request_error"))
    session = manager.start("Fail first", refused, [finish("Better.")])
    tab.open(session)
    ask = tab.ask("The request failed")
    expect(ask).to_contain_text("No such thing.")
    expect(tab.state).to_contain_text("Failed")
    ask.get_by_role("button", name="Retry").click()
    expect(tab.conversation).to_contain_text("Better.")
    expect(ask).to_have_count(0)


def test_a_reload_in_the_middle_loses_and_doubles_nothing(tab: Tab, manager: Manager):
    first, second = gate(), gate()
    session = manager.start(
        "Count words", [say(LONG, first, "middle ", LONG, second, "end."), finish("Counted.")]
    )
    tab.open(session)
    first.wait_until_reached(PATIENCE)
    tab.page.reload()
    expect(tab.conversation.locator(".answer")).to_contain_text("word word")
    first.open()
    second.wait_until_reached(PATIENCE)
    expect(tab.conversation).to_contain_text("middle")
    tab.page.reload()
    second.open()
    expect(tab.conversation).to_contain_text("Counted.")
    expect(tab.conversation.locator(".answer .prose")).to_have_text(
        f"{LONG}middle {LONG}end.", use_inner_text=False
    )


def test_a_message_is_queued_edited_and_taken_back(tab: Tab, manager: Manager):
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
    heard = last_words(manager.model.heard("Be busy", 2))
    assert "Mind the linter" in heard
    assert "Mind the tests" not in heard
    assert "And the docs" not in heard
    expect(waiting).to_have_count(0)
    expect(tab.conversation).to_contain_text("Mind the linter")


def test_what_was_written_but_not_sent_stays(tab: Tab, manager: Manager):
    session = manager.start("Wait for words", [finish()])
    tab.open(session)
    expect(tab.state).to_contain_text("Done")
    tab.message.fill("Not yet")
    tab.go("settings")
    tab.open(session)
    expect(tab.message).to_have_value("Not yet")
