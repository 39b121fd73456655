"""Sessions are named, put away, saved, forked and taken back; settings are changed."""

import re
from pathlib import Path

from playwright.sync_api import expect

from llm_server import call, finish, say
from support.manager_page import Manager, Project, Tab, until


def test_a_session_is_renamed_and_put_into_the_archive(tab: Tab, manager: Manager):
    session = manager.start("An odd name", [finish()])
    tab.open(session)
    tab.button("An odd name").click()
    field = tab.page.get_by_label("Session name")
    expect(field).to_be_focused()
    field.fill("Cents")
    field.press("Enter")
    side = tab.page.get_by_role("complementary", name="Sessions")
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


def test_sessions_are_found_by_their_words(tab: Tab, manager: Manager):
    manager.start("Paint the shed", [finish()])
    manager.start("Mend the roof", [finish()])
    side = tab.page.get_by_role("complementary", name="Sessions")
    expect(side.get_by_role("listitem")).to_have_count(2)
    tab.page.keyboard.press("/")
    expect(tab.page.get_by_label("Search sessions")).to_be_focused()
    tab.page.keyboard.type("shed paint")
    expect(side.get_by_role("listitem")).to_have_count(1)
    expect(side.get_by_role("listitem")).to_contain_text("Paint the shed")


def test_a_session_is_saved_as_a_file(tab: Tab, manager: Manager):
    session = manager.start("Tell and save", [say("Something to keep."), finish("Kept.")])
    tab.open(session)
    expect(tab.state).to_contain_text("Done")
    with tab.page.expect_download() as download:
        tab.menu("Export as Markdown")
    assert download.value.suggested_filename.endswith(".md")
    saved = Path(download.value.path()).read_text()
    assert "Tell and save" in saved
    assert "Something to keep." in saved


def test_a_session_is_forked_from_a_row(tab: Tab, manager: Manager):
    session = manager.start(
        "Branch here", [say("A good start."), finish("Old end.")], [finish("New end.")]
    )
    tab.open(session)
    expect(tab.state).to_contain_text("Done")
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


def test_files_go_back_to_a_checkpoint(tab: Tab, manager: Manager, project: Project):
    made = project.path / "kept.txt"
    session = manager.start(
        "Write twice",
        [call("write_to_file", path="kept.txt", content="first\n")],
        [call("write_to_file", path="kept.txt", content="second\n")],
        [finish("Written twice.")],
        auto_approve=True,
    )
    tab.open(session)
    expect(tab.state).to_contain_text("Done")
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
    expect(tab.conversation).to_contain_text("Written twice.")


def test_a_setting_is_changed_and_given_back(tab: Tab, manager: Manager, project: Project):
    def limit() -> str:
        rows = manager.do("read_settings")
        (row,) = (row for row in rows if row["key"] == "manager.running_limit")
        return str(row["value"])

    tab.go("settings")
    tab.page.get_by_label("Search settings").fill("running_limit")
    field = tab.page.locator(".setting input")
    expect(field).to_have_value("5")
    field.fill("0")
    field.press("Enter")
    expect(tab.page.get_by_role("alert")).to_be_visible()
    assert limit() == "5"
    field.fill("3")
    field.press("Enter")
    expect(tab.page.get_by_text(re.compile(r"^Saved "))).to_be_visible()
    assert limit() == "3"
    assert "running_limit = 3" in project.places.settings_file.read_text()
    tab.button("Reset to default").click()
    expect(field).to_have_value("5")
    until(lambda: limit() == "5", "the usual limit")
