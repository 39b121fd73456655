"""The views for review, versions, governance and settings."""

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from llm_server import Answer, call, finish
from support.intent_files import SPEC_EXAMPLE, laid_out
from support.manager_page import Manager, Project, Tab, Tabs, Window, managed, until
from support.scripted_model import Model, last_words

BETTER = "def off(price, by):\n    return price * by / 100\n"
OTHER = BETTER.replace("100", "1000")
NEW = "one\ntwo\nthree\n"
INSIDE = "src/auth/cents.py"
INTENT = "JWT authentication migration"


def edits(**files: str) -> list[Answer]:
    """One scripted answer per file, then the completion."""
    named = {name.replace("_", "."): text for name, text in files.items()}
    return [
        [call("read_file", path="prices.py")],
        *([call("write_to_file", path=name, content=text)] for name, text in named.items()),
        [finish("Both are done.")],
    ]


def file(tab: Tab, path: str) -> Locator:
    return tab.page.get_by_role("region", name=path, exact=True)


def test_a_worktree_is_reviewed_commented_applied_and_reverted(
    tab: Tab, manager: Manager, project: Project
):
    answers = [*edits(prices_py=BETTER, notes_txt=NEW), [finish("Heard.")]]
    session = manager.start("Change two", *answers, where="worktree", auto_approve=True)
    worktree = Path(manager.at(session, "completed")["workspace"])
    tab.open(session)
    tab.page.get_by_role("link", name="Review", exact=True).click()
    expect(file(tab, "prices.py").locator(".review-code.added")).to_contain_text("/ 100")
    expect(file(tab, "prices.py").locator(".review-code.removed")).to_contain_text("/ 10")

    for path, line, words in (("prices.py", 2, "Round it."), ("notes.txt", 3, "Drop this.")):
        file(tab, path).get_by_role("button", name=f"Comment on line {line}", exact=True).click()
        box = file(tab, path).get_by_role("textbox")
        expect(box).to_be_focused()
        box.fill(words)
        file(tab, path).get_by_role("button", name="Add comment").click()
    tab.page.reload()
    bar = tab.page.get_by_role("region", name="Unsent comments")
    expect(bar).to_contain_text("2 unsent comments")
    asked = len(manager.model.asked("Change two"))
    bar.get_by_role("button", name="Send to agent").click()
    received = last_words(manager.model.received("Change two", asked + 1))
    assert "prices.py, line 2:\n>     return price * by / 100\nRound it." in received
    assert "notes.txt, line 3:\n> three\nDrop this." in received
    expect(bar).to_have_count(0)
    tab.page.get_by_role("link", name="Back to session").click()
    expect(tab.conversation).to_contain_text("Heard.")
    expect(tab.state).to_contain_text("Done")
    assert len(manager.model.asked("Change two")) == asked + 1

    tab.page.get_by_role("link", name="Review", exact=True).click()
    tab.button("Apply…").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 files will be written to the project")
    expect(dialog).to_contain_text("prices.py")
    assert "/ 10\n" in (project.path / "prices.py").read_text()
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(tab.page.locator(".toast.good").last).to_contain_text("Applied 2 files")
    assert (project.path / "prices.py").read_text() == BETTER
    assert (project.path / "notes.txt").read_text() == NEW

    revert = file(tab, "notes.txt").get_by_role("button", name="Revert notes.txt")
    revert.click()
    dialog = tab.page.get_by_role("dialog", name="Delete notes.txt?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    expect(revert).to_be_focused()
    assert (worktree / "notes.txt").exists()
    revert.click()
    dialog.get_by_role("button", name="Delete").click()
    expect(file(tab, "notes.txt")).to_have_count(0)
    assert not (worktree / "notes.txt").exists()
    assert (worktree / "prices.py").read_text() == BETTER
    project.git("checkout", "-q", ".")
    (project.path / "notes.txt").unlink()


def test_versions_are_compared_and_one_is_kept(tab: Tab, manager: Manager, project: Project):
    manager.model.plays("Two ways", *edits(prices_py=BETTER), to_each=True)
    tab.go("new")
    tab.page.get_by_label("Prompt").fill("Two ways")
    tab.button("1 version").click()
    tab.page.get_by_role("group", name="Versions").get_by_role("radio", name="2").check()
    expect(tab.page.get_by_role("switch", name="Auto-approve")).to_be_checked()
    tab.button(re.compile("Start 2")).click()
    expect(tab.page).to_have_url(re.compile("#/(session|versions)/"))
    if "#/session/" in tab.page.url:
        tab.page.get_by_role("link", name=re.compile("Compare|compare")).click()
    table = tab.page.get_by_role("region", name="Version comparison").get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_count(2)
    keep = table.get_by_role("button", name="Keep this version")
    expect(keep.first).to_be_enabled()
    expect(keep.last).to_be_enabled()
    expect(table).to_contain_text("Both are done.")
    folders = {row["name"]: row["workspace"] for row in manager.rows().values()}
    Path(folders["Two ways v2"], "prices.py").write_text(OTHER)
    tab.page.reload()
    for version, by in (("Version 1", 100), ("Version 2", 1000)):
        added = tab.page.get_by_role("region", name=version).locator(".review-code.added")
        expect(added).to_have_text(re.compile(f"price \\* by / {by}$"))
    keep.last.click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Apply", exact=True).click()
    dialog = tab.page.get_by_role("dialog", name="Remove the other versions?")
    dialog.get_by_role("button", name="Remove 1 version").click()
    expect(dialog).to_have_count(0)
    assert (project.path / "prices.py").read_text() == OTHER
    left = [row["path"] for row in manager.do("list_worktrees") if row["group_id"]]
    assert left == [folders["Two ways v2"]]
    project.git("checkout", "-q", ".")


def test_an_intent_its_trace_and_out_of_scope_files_are_shown(
    window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    laid_out(project.path, SPEC_EXAMPLE.replace("2026-03-31", "2099-03-31"))
    project.commit({})
    with managed(project) as manager:
        tabs = Tabs(window, manager)
        tab = tabs.open()
        session = manager.start(
            "Work with an intent",
            [call("select_active_intent", intent_id="INT-001")],
            [call("write_to_file", path=INSIDE, content="CENTS = 100\n")],
            [call("write_to_file", path="other.py", content="x = 1\n")],
            [finish("Left alone.")],
            auto_approve=True,
            intent="INT-001",
        )
        tab.open(session)
        ask = tab.ask(re.compile("other.py"))
        for words in ("INT-001", INTENT, "src/auth/**", "out of scope"):
            expect(ask).to_contain_text(words)
        ask.get_by_role("button", name=re.compile("^Reject( r)?$")).click()
        ask.get_by_label("Reason for rejecting").press("Enter")
        expect(tab.conversation).to_contain_text("Left alone.")
        assert not (project.path / "other.py").exists()

        tab.page.get_by_role("link", name="Governance").click()
        card = tab.page.locator("main .card", has_text=INTENT)
        expect(card).to_contain_text("src/auth/**")
        expect(card).to_contain_text("Unit tests under tests/auth pass.")
        card.get_by_role("button", name="1 change").click()
        record = tab.page.get_by_role("list", name="Records, newest first").get_by_role("listitem")
        expect(record.filter(has_text=INSIDE).first).to_contain_text("INT-001")
        tab.page.get_by_role("button", name=INSIDE).first.click()
        expect(tab.page.get_by_role("tabpanel")).to_contain_text("CENTS = 100")
        expect(tab.page.get_by_role("tabpanel")).to_contain_text("INT-001")
        tabs.close()
        manager.clear()
    project.end_all()


def test_a_setting_is_changed_and_reset(tab: Tab, manager: Manager, project: Project):
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


def test_the_theme_follows_the_system_and_can_be_chosen(tabs: Tabs):
    tab = tabs.open(colours="dark")
    ground = "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)"
    until(lambda: max(tab.page.evaluate(ground)[:3]) < 90, "a dark ground")
    tab.button("Light theme", exact=True).click()
    until(lambda: min(tab.page.evaluate(ground)[:3]) > 200, "a light ground")
    tab.page.reload()
    expect(tab.button("Dark theme", exact=True)).to_be_visible()
    until(lambda: min(tab.page.evaluate(ground)[:3]) > 200, "a light ground")
