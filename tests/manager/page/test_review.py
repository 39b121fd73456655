"""What was done in a worktree is reviewed, sent back, put back, applied, and compared."""

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from llm_server import Answer, call, finish
from support.manager_page import Manager, Project, Tab
from support.scripted_model import last_words

BETTER = "def off(price, by):\n    return price * by / 100\n"
OTHER = BETTER.replace("100", "1000")
NEW = "one\ntwo\nthree\n"


def edits(**files: str) -> list[Answer]:
    """One answer for each file, and the end."""
    named = {name.replace("_", "."): text for name, text in files.items()}
    return [
        [call("read_file", path="prices.py")],
        *([call("write_to_file", path=name, content=text)] for name, text in named.items()),
        [finish("Both are done.")],
    ]


def reviewed(tab: Tab, manager: Manager, prompt: str, *more: Answer) -> dict[str, str]:
    """A session that has changed two files of its worktree, whose review is looked at."""
    answers = [*edits(prices_py=BETTER, notes_txt=NEW), *more]
    session = manager.start(prompt, *answers, where="worktree", auto_approve=True)
    row = manager.at(session, "completed")
    tab.open(session)
    tab.page.get_by_role("link", name="Review", exact=True).click()
    expect(file(tab, "prices.py").locator(".review-code.added")).to_contain_text("/ 100")
    return row


def file(tab: Tab, path: str) -> Locator:
    return tab.page.get_by_role("region", name=path, exact=True)


def test_two_comments_are_one_message(tab: Tab, manager: Manager):
    reviewed(tab, manager, "Change and hear", [finish("Heard.")])
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
    asked = len(manager.model.asked("Change and hear"))
    bar.get_by_role("button", name="Send to agent").click()
    heard = last_words(manager.model.heard("Change and hear", asked + 1))
    assert "prices.py, line 2:\n>     return price * by / 100\nRound it." in heard
    assert "notes.txt, line 3:\n> three\nDrop this." in heard
    expect(bar).to_have_count(0)
    tab.page.get_by_role("link", name="Back to session").click()
    expect(tab.conversation).to_contain_text("Heard.")
    assert len(manager.model.asked("Change and hear")) == asked + 1


def test_a_file_is_put_back(tab: Tab, manager: Manager):
    row = reviewed(tab, manager, "Change too much")
    put_back = file(tab, "notes.txt").get_by_role("button", name="Revert notes.txt")
    put_back.click()
    dialog = tab.page.get_by_role("dialog", name="Delete notes.txt?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    expect(put_back).to_be_focused()
    worktree = Path(row["workspace"])
    assert (worktree / "notes.txt").exists()
    put_back.click()
    dialog.get_by_role("button", name="Delete").click()
    expect(file(tab, "notes.txt")).to_have_count(0)
    assert not (worktree / "notes.txt").exists()
    assert (worktree / "prices.py").read_text() == BETTER


def test_a_worktree_is_applied_after_its_plan_was_shown(
    tab: Tab, manager: Manager, project: Project
):
    reviewed(tab, manager, "Change and apply")
    tab.button("Apply…").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 files will be written to the project")
    expect(dialog).to_contain_text("prices.py")
    assert "/ 10\n" in (project.path / "prices.py").read_text()
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(tab.page.locator(".toast.good")).to_be_visible()
    assert (project.path / "prices.py").read_text() == BETTER
    assert (project.path / "notes.txt").read_text() == NEW
    project.git("checkout", "-q", ".")
    (project.path / "notes.txt").unlink()


def test_versions_are_compared_and_one_is_kept(tab: Tab, manager: Manager, project: Project):
    manager.model.plays("Two ways", *edits(prices_py=BETTER), to_each=True)
    tab.go("new")
    tab.page.get_by_label("Prompt").fill("Two ways")
    tab.page.get_by_role("group", name="Versions").get_by_role("radio", name="2").check()
    tab.page.get_by_role("switch", name="Auto-approve").check()
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
