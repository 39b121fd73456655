"""A session with a long past is opened at its end and gone through to its beginning. Only what is
near is in the document, and nobody notices."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from llm_server import finish, gate, say, think
from rookery.core.facts import Event, TaskOpened
from rookery.storage.journal_lines import JOURNAL, Blobs, line_from
from rookery.storage.sessions import TaskStore
from support.manager_page import Manager, Project, Tab, managed, until
from support.tui_long_session import long_past

MANY = 10_000
ROWS = MANY if os.environ.get("ROOKERY_TORTURE") else 1_500
"""That are gone through."""
FIRST, THOUGHT, LAST = "Begin a past", "Where to begin?", "The very last words."
MOST_DRAWN = 150
TOLERANCE = 2
"""Pixels. Nobody sees that a row moved by so little."""
SMALL_STEPS, SMALL, LARGE, HUGE = 40, 400, 1_200, 10**6
"""Pixels; after a small step, what is then the first row in sight was drawn before."""
GO_UP = """
async (box, [smallSteps, small, large]) => {
  // just before something is painted: only what is painted is seen
  const probe = document.body.appendChild(document.createElement("i"));
  let painting = () => undefined;
  new ResizeObserver(() => painting()).observe(probe);
  const frame = () => new Promise((done) => requestAnimationFrame(() => {
    painting = done;
    probe.style.width = probe.style.width === "1px" ? "2px" : "1px";
  }));
  probe.style.cssText = "position: fixed; display: block";
  const drawn = () => [...box.querySelectorAll("[data-ts]")];
  const topOf = (row) => row.getBoundingClientRect().top;
  const firstBelow = (top) => drawn().find((row) => row.getBoundingClientRect().bottom > top);
  const seen = new Set(), wrong = [], moved = [];
  let most = 0;
  for (let at = 0; at < 1_000; at++) {
    while (box.querySelector(".prose-rest")) await frame(); // how it looks is told a little later
    const places = drawn().map((row) => Number(row.ariaPosInSet));
    wrong.push(...places.filter((place, at) => at && place <= places[at - 1]));
    places.forEach((place) => seen.add(place));
    most = Math.max(most, places.length);
    if (box.scrollTop === 0 && !box.querySelector(".beginning")) break;
    const by = Math.min(at < smallSteps ? small : large, box.scrollTop);
    const held = by <= small && firstBelow(topOf(box) - by);
    const before = held && topOf(held);
    box.scrollTop -= by;
    await frame();
    if (held) moved.push(held.isConnected ? Math.abs(topOf(held) - before - by) : Infinity);
  }
  const size = Number(drawn()[0].ariaSetSize);
  return { seen: [...seen], wrong, most, moved: Math.max(...moved), steps: moved.length, size };
}
"""


@pytest.fixture(scope="module")
def sessions(project: Project) -> dict[int, str]:
    """Long ones, by how many rows they have. No manager has the project open."""
    with managed(project) as manager:
        made = {
            rows: manager.start(f"{FIRST} of {rows}", [think(THOUGHT), finish()])
            for rows in {MANY, ROWS}
        }
        for session in made.values():
            manager.at(session, "completed")
        manager.do("stop_all")
        until(lambda: not project.left(), "the end of the sessions")
    for rows, session in made.items():
        lengthen(project, session, rows)
    return made


@pytest.fixture(scope="module")
def common_manager(project: Project, sessions: dict[int, str]) -> Iterator[Manager]:
    with managed(project) as manager:
        yield manager


@pytest.fixture
def manager(common_manager: Manager) -> Manager:
    """One that keeps its sessions."""
    return common_manager


@pytest.fixture
def long(tab: Tab, sessions: dict[int, str]) -> Tab:
    """Where a session that is gone through is looked at."""
    tab.open(sessions[ROWS])
    # at first the last rows are shown, and how many there are is told later
    last = tab.conversation.locator("[data-ts]").last
    expect(last).to_have_attribute("aria-setsize", re.compile(f"{ROWS // 100}.."))
    tab.page.keyboard.press("End")
    expect(tab.conversation.get_by_text(LAST)).to_be_in_viewport()
    return tab


def lengthen(project: Project, session_id: str, rows: int) -> None:
    """As if a session that has ended had done a lot more."""
    store = TaskStore(project.places)
    folder, events = store.folder(session_id), list(store.read(session_id))
    facts = [fact for fact in long_past(rows, LAST) if not isinstance(fact, TaskOpened)]
    seq, ts = events[-1].seq + 1, events[-1].ts
    with (folder / JOURNAL).open("ab") as journal:
        for number, fact in enumerate(facts):
            event = Event(seq + number, 0, ts + number, fact)
            journal.write(line_from(event, Blobs(folder / "blobs")))


def go_up(tab: Tab, small_steps: int = 0, large: int = HUGE) -> dict[str, Any]:
    """To the very first row; and what was seen on the way."""
    told: dict[str, Any] = tab.conversation.evaluate(GO_UP, [small_steps, SMALL, large])
    expect(tab.conversation.get_by_text(FIRST)).to_be_in_viewport()
    return told


def drawn(tab: Tab) -> int:
    return tab.conversation.locator("[data-ts]").count()


def test_of_ten_thousand_rows_the_last_are_drawn(tab: Tab, sessions: dict[int, str]):
    tab.open(sessions[MANY])
    expect(tab.conversation.get_by_text(LAST)).to_be_in_viewport()
    assert 0 < drawn(tab) < MOST_DRAWN


def test_on_the_way_up_no_row_is_missing_doubled_or_moved(long: Tab):
    tab = long
    told = go_up(tab, SMALL_STEPS, LARGE)
    size = told["size"]
    assert size >= ROWS
    assert told["wrong"] == []
    # twice it asks whether it is done, of which there is nothing to see
    assert len(set(range(1, size + 1)) - set(told["seen"])) == 2
    assert told["most"] < MOST_DRAWN
    assert told["steps"] >= SMALL_STEPS
    assert told["moved"] < TOLERANCE
    tab.button("Jump to latest").click()
    expect(tab.conversation.get_by_text(LAST)).to_be_in_viewport()
    assert drawn(tab) < MOST_DRAWN


def test_an_opened_row_is_open_when_one_comes_back(long: Tab):
    tab = long
    go_up(tab)
    thought = tab.conversation.get_by_role("button", name="Thought")
    thought.click()
    words = tab.conversation.locator(".thought .prose")
    expect(words).to_have_text(THOUGHT)
    tab.conversation.focus()
    tab.page.keyboard.press("End")
    expect(thought).to_have_count(0)
    go_up(tab)
    expect(words).to_have_text(THOUGHT)


def test_a_row_with_the_focus_or_a_selection_stays_in_the_document(long: Tab):
    tab = long
    row = tab.conversation.locator(".answer").last
    row.get_by_role("button", name="Copy text").focus()
    row.locator(".prose").evaluate("words => getSelection().selectAllChildren(words)")
    go_up(tab)
    assert tab.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Copy text"
    assert "divides" in tab.page.evaluate("String(getSelection())")
    assert drawn(tab) < MOST_DRAWN
    tab.page.keyboard.press("Tab")
    name = "document.activeElement.getAttribute('aria-label')"
    assert tab.page.evaluate(name) == "Fork from here"
    expect(row).to_be_in_viewport()
    tab.page.evaluate("getSelection().removeAllRanges()")


def test_the_end_is_followed_until_somebody_scrolls_up(tab: Tab, manager: Manager):
    first, second = gate(), gate()
    words = "\n\n".join(["One more line of it."] * 80)
    session = manager.start(
        "Speak on", [say("So:\n\n", words, " half", first, f"\n\n{words} whole", second), finish()]
    )
    tab.open(session)
    answer = tab.conversation.locator(".answer .prose")
    expect(answer).to_contain_text("half")
    first.open()
    expect(answer).to_contain_text("whole")
    left = "box => Math.round(box.scrollHeight - box.clientHeight - box.scrollTop)"
    until(lambda: tab.conversation.evaluate(left) <= 1, "the end")
    tab.conversation.evaluate("box => { box.scrollTop -= 500; }")
    expect(tab.button("Jump to latest")).to_be_visible()
    place = tab.conversation.evaluate("box => box.scrollTop")
    second.open()
    expect(tab.state).to_contain_text("Done")
    assert abs(tab.conversation.evaluate("box => box.scrollTop") - place) < TOLERANCE
    tab.button("Jump to latest").click()
    until(lambda: tab.conversation.evaluate(left) <= 1, "the end")
