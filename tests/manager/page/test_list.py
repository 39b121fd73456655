"""The inbox and the list for many sessions: groups, keys, search, order, many at once, cost."""

import os
import re
import signal
from pathlib import Path

from playwright.sync_api import expect

from llm_server import call, finish, gate, problem, say, status, usage
from support.manager_page import Manager, Project, Tab, until

HOLD_FRAMES = """() => {
  window.soon = requestAnimationFrame;
  window.held = [];
  window.requestAnimationFrame = (act) => held.push(act);
}"""
"""A busy machine draws late."""
DRAW = "() => { window.requestAnimationFrame = soon; held.forEach((act) => act(0)); }"


def command(line: str) -> object:
    return call("execute_command", command=line)


def side(tab: Tab):
    return tab.page.get_by_role("complementary", name="Sessions")


def test_results_are_marked_as_read_together_and_the_inbox_is_filtered(tab: Tab, manager: Manager):
    for number in range(2):
        manager.at(manager.start(f"Do {number}", [finish(f"Did {number}.")]), "completed")
    refused = status(400, problem("No such thing.", "invalid_request_error"))
    manager.at(manager.start("Fail", refused), "error")
    manager.at(manager.start("Ask", [command("touch asked")], [finish()]), "waiting_approval")
    tab.go("inbox")
    cards = tab.page.locator(".inbox-card")
    expect(cards).to_have_count(4)
    groups = tab.page.get_by_role("main").get_by_role("region")
    expect(groups.get_by_role("heading", level=2)).to_contain_text(
        ["Questions 1", "Failed 1", "Done 2"]
    )
    filters = tab.page.get_by_role("group", name="Filter")
    filters.get_by_role("button", name="Failed").click()
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("No such thing.")
    filters.get_by_role("button", name="Done").click()
    tab.page.get_by_role("button", name="Mark all as read").click()
    expect(cards).to_have_count(0)
    filters.get_by_role("button", name="All").click()
    expect(cards).to_have_count(2)
    assert [row["unread"] for row in manager.rows().values() if row["state"] == "completed"] == [
        False
    ] * 2


def test_a_destructive_command_needs_a_second_key(tab: Tab, manager: Manager, project: Project):
    old = project.path / "old.txt"
    old.write_text("old\n")
    session = manager.start("Delete it", [command("shred -u old.txt")], [finish("Gone.")])
    manager.at(session, "waiting_approval")
    tab.go("inbox")
    ask = tab.ask("Run this command?")
    approve = ask.get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    keys = tab.page.keyboard
    keys.down("a")
    for _ in range(5):
        keys.down("a")
    keys.up("a")
    expect(ask.get_by_role("status")).to_contain_text("Press y")
    keys.press("a")
    tab.page.evaluate("() => new Promise((done) => setTimeout(done, 1000))")
    assert old.read_text() == "old\n"
    keys.press("y")
    manager.at(session, "completed")
    assert not old.exists()


def test_waiting_sessions_are_answered_one_by_one_with_keys(
    tab: Tab, manager: Manager, project: Project
):
    prompts = [f"Wait {number}" for number in range(3)]
    for prompt in prompts:
        session = manager.start(prompt, [command(f"touch '{prompt}'")], [finish()])
        manager.at(session, "waiting_approval")
    tab.go("inbox")
    for left in range(3, 0, -1):
        waiting = tab.page.get_by_role("region", name="Questions").locator(".inbox-card")
        expect(waiting).to_have_count(left)
        if left < 3:
            tab.page.keyboard.press("j")
        expect(tab.page.locator(".inbox-card .key", has_text="a")).to_have_count(1)
        expect(waiting.first.get_by_role("button", name="Approve")).to_be_enabled()
        tab.page.evaluate("() => new Promise((done) => setTimeout(done, 1000))")
        tab.page.keyboard.press("a")
        expect(waiting).to_have_count(left - 1)
    until(lambda: all((project.path / each).exists() for each in prompts), "three files")


def test_a_question_of_a_killed_process_can_be_answered_after_a_retry(tab: Tab, manager: Manager):
    made = command("touch made.txt")
    session = manager.start("Make it", [made], [finish("Made.")])
    manager.at(session, "waiting_approval")
    tab.open(session)
    expect(tab.button("Approve")).to_be_enabled()
    for pid in manager.project.left():
        if session.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    expect(tab.page.get_by_role("alert").filter(has_text="ended by signal 9")).to_be_visible()
    expect(tab.ask()).to_have_count(0)
    tab.go("inbox")
    expect(tab.page.locator(".inbox-card")).to_contain_text("ended by signal 9")
    expect(tab.ask()).to_have_count(0)
    tab.open(session)
    tab.button("Retry", exact=True).first.click()
    tab.button("Approve").click()
    expect(tab.state).to_contain_text("Done")
    assert (manager.project.path / "made.txt").exists()


def test_the_list_searches_conversations(tab: Tab, manager: Manager):
    session = manager.start("Paint it", [say("I prefer vermilion here."), finish("Painted.")])
    manager.at(session, "completed")
    manager.at(manager.start("Other work", [finish("Worked.")]), "completed")
    search = tab.page.get_by_label("Search sessions")
    search.fill("vermil")
    hits = side(tab).get_by_role("region", name="In conversations").get_by_role("link")
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("Paint it")
    expect(hits).to_contain_text("I prefer vermilion here.")
    hits.click()
    expect(tab.conversation).to_contain_text("vermilion")
    search.fill("no such words at all")
    expect(side(tab)).to_contain_text("No sessions match.")


def test_sessions_are_pinned_tagged_and_changed_together(tab: Tab, manager: Manager):
    for prompt in ("First", "Second", "Third"):
        manager.at(manager.start(prompt, [finish()]), "completed")
    busy = manager.start("Busy", [say("Slow", gate())])
    manager.at(busy, "streaming")
    section = side(tab).get_by_role("region")
    expect(section).to_contain_text(["Working", "Today"])
    expect(section.filter(has_text="Today").locator(".session-name")).to_have_text(
        ["Third", "Second", "First"]
    )
    side(tab).get_by_role("link", name="First").hover()
    tab.button("Actions for First").click()
    tab.page.get_by_role("menuitem", name="Pin").click()
    expect(section.first).to_contain_text("Pinned")
    tab.button("Actions for Second").focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("menuitem", name="Tags…").click()
    dialog = tab.page.get_by_role("dialog", name="Tags")
    field = dialog.get_by_label("Tags", exact=True)
    field.fill("much-too-long-for-a-tag-to-be")
    field.hover()
    tab.page.mouse.down()
    tab.page.mouse.move(5, 5)  # as a selection is dragged
    tab.page.mouse.up()
    field.press("Enter")
    expect(dialog).to_contain_text("A tag is one word of at most 24 characters.")
    field.fill("urgent, parser")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    tags = side(tab).get_by_role("group", name="Tags")
    tags.get_by_role("button", name="urgent").click()
    expect(side(tab).locator(".session-name")).to_have_text(["Second"])
    tags.get_by_role("button", name="urgent").click()
    tab.button("Select sessions").click()
    bar = side(tab).get_by_role("toolbar", name="Selected sessions")
    for name in ("Busy", "Third"):
        side(tab).get_by_role("checkbox", name=re.compile(name)).check()
    bar.get_by_role("button", name="Stop", exact=True).click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    manager.at(busy, "stopped")
    tab.button("Select sessions").click()
    bar.get_by_role("button", name="Select all").click()
    expect(bar).to_contain_text("4 sessions selected")
    bar.get_by_role("button", name="Archive").click()
    expect(section).to_have_count(1)
    assert all(row["archived"] for row in manager.rows().values())
    tab.button("Undo").click()
    expect(section.first).to_contain_text("Pinned")


def test_the_cost_page_shows_the_figures_of_the_engine(tab: Tab, manager: Manager):
    answer = [usage(1_000_000, 20_000), finish("Paid.")]
    session = manager.start("Pay", answer, model="anthropic/claude-opus-5")
    row = manager.at(session, "completed")
    tab.page.get_by_role("link", name="Cost").click()
    costs = manager.do("read_costs")
    (paid,) = (each for each in costs["sessions"] if each["session_id"] == session)
    assert paid["tokens_in"] + paid["tokens_out"] == row["tokens"] == 1_020_000
    assert paid["cost"] == row["cost"] == 5.5
    main = tab.page.get_by_role("main")
    paid_row = main.get_by_role("row", name=re.compile("Pay"))
    expect(paid_row).to_contain_text("1M")
    expect(paid_row).to_contain_text("$5.50")
    expect(paid_row.get_by_role("link", name="Pay")).to_be_visible()
    expect(main.get_by_role("heading", level=2)).to_contain_text(
        ["Days", "Models", "Sessions", "Projects"]
    )
    tab.page.get_by_label("Daily budget in dollars").fill("20")
    tab.button("Save").click()
    expect(main.get_by_role("meter", name="Daily budget used")).to_be_visible()
    expect(main.get_by_role("region", name="Budget")).to_contain_text("% of $20.00")
    assert manager.do("read_costs")["daily_budget"] == 20
    tab.page.get_by_label("Daily budget in dollars").fill("1")
    tab.button("Save").click()
    expect(main.get_by_role("region", name="Budget")).to_contain_text("is used up")
    tab.go("new")
    expect(main).to_contain_text("The budget of $1.00 is used up")
    manager.do("change_setting", key="manager.daily_budget", value=None)


def test_chips_start_a_session_in_a_worktree_and_the_prompt_is_shown_at_once(
    tab: Tab, manager: Manager, project: Project
):
    project.commit({".roo/commands/mend.md": "---\ndescription: Mend a part\n---\nMend it well."})
    manager.model.plays("Mend it well.", [finish("Mended.")])
    tab.go("new")
    tab.button("Issue", exact=True).click()
    issues = tab.page.get_by_role("dialog", name="Start from an issue")
    expect(issues.get_by_role("alert")).to_contain_text("gh")  # it is missing, or knows no remote
    issues.get_by_role("button", name="Close").click()
    prompt = tab.page.get_by_label("Prompt")
    prompt.press_sequentially("/me")
    choices = tab.page.get_by_role("listbox", name="Commands").get_by_role("option")
    expect(choices).to_have_count(1)
    expect(choices).to_contain_text("Mend a part")
    tab.page.evaluate(HOLD_FRAMES)
    prompt.press("Enter")
    expect(prompt).to_have_value("/mend ")
    prompt.press_sequentially("the")
    tab.page.evaluate(DRAW)
    prompt.press_sequentially(" roof")
    expect(prompt).to_have_value("/mend the roof")
    tab.button("Project", exact=True).click()
    tab.page.get_by_role("radio", name="Worktree").check()
    expect(tab.button("New worktree")).to_be_visible()
    tab.page.get_by_role("switch", name="Auto-approve").click()
    tab.page.evaluate(
        """() => new MutationObserver(() => {
             const shown = document.querySelector(".starting");
             if (shown) window.shownAtOnce = shown.textContent;
           }).observe(document.body, {childList: true, subtree: true, characterData: true})"""
    )
    tab.button("Start session").click()
    expect(tab.conversation).to_contain_text("Mended.")
    assert "/mend the roof" in tab.page.evaluate("window.shownAtOnce")
    (row,) = manager.rows().values()
    assert row["worktree_id"]
    assert row["branch"].startswith("agent/")
    assert not row["auto_approve"]


OPEN_AND_ESCAPE = """async (field) => {
  field.focus();
  field.click();
  field.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""


def test_the_list_of_models_closes_even_if_escape_follows_at_once(tab: Tab):
    tab.go("new")
    tab.page.locator(".chip").nth(2).click()
    field = tab.page.get_by_role("combobox").first
    for _ in range(5):
        field.evaluate(OPEN_AND_ESCAPE)
        assert tab.page.get_by_role("listbox").count() == 0


def test_a_session_is_continued_in_a_worktree(tab: Tab, manager: Manager, project: Project):
    prompt = "Look at prices"
    session = manager.start(
        prompt,
        [finish("Looked.")],
        [call("write_to_file", path="prices.txt", content="1\n")],
        [finish("Written.")],
    )
    manager.at(session, "completed")
    listed = tab.page.get_by_role("complementary", name="Sessions").get_by_role("listitem")
    expect(listed.filter(has_text=prompt)).to_contain_text("Done")  # it moves to another section
    tab.button(f"Actions for {prompt}").focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("menuitem", name="Continue in a worktree").click()
    expect(tab.page.get_by_role("heading", name=f"{prompt} (fork)")).to_be_visible()
    expect(tab.conversation).to_contain_text("Looked.")
    tab.send("Write them down")
    tab.ask().get_by_role("button", name="Approve").click()
    expect(tab.conversation).to_contain_text("Written.")
    (row,) = (row for row in manager.rows().values() if row["worktree_id"])
    assert (Path(row["workspace"]) / "prices.txt").read_text() == "1\n"
    assert not (project.path / "prices.txt").exists()
