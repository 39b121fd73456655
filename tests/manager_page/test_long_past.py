"""A session with a long past is opened at its end, and gone through to its beginning."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect

from llm_server import finish
from manager_page.bench import Project, Tab, Tabs, managed, until
from rookery.core.facts import Event, TaskOpened
from rookery.storage.blobs import Blobs
from rookery.storage.lines import line_from
from rookery.storage.recovery import JOURNAL
from rookery.storage.tasks import TaskStore
from tui_past import long_past

ROWS = 10_000
GONE_THROUGH = ROWS if os.environ.get("ROOKERY_TORTURE") else 1_000
MOST_DRAWN = 1_000
"""Rows in the page when it is opened, however many there are."""
FIRST, LAST = "Begin a long past", "The very last words."


@contextmanager
def opened(browser: Browser, project: Project, rows: int) -> Iterator[Tab]:
    """A session that has so many rows, looked at. Nobody else may hold the project."""
    prompt = f"{FIRST} of {rows}"
    with managed(project) as before:
        session = before.start(prompt, [finish()])
        before.at(session, "completed")
        before.do("stop_all")
        until(lambda: project.left() == [before.process.pid], "the end of the session")
    lengthen(project, session, rows)
    with managed(project) as manager:
        tabs = Tabs(browser, manager)
        tab = tabs.open()
        tab.open(session)
        yield tab
        tabs.close()


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


def test_of_ten_thousand_rows_the_last_are_drawn(browser: Browser, project: Project):
    with opened(browser, project, ROWS) as tab:
        expect(tab.conversation.get_by_text(LAST)).to_be_in_viewport()
        assert 0 < tab.conversation.locator(".row").count() < MOST_DRAWN


def test_one_can_go_up_to_the_very_first_and_back(browser: Browser, project: Project):
    with opened(browser, project, GONE_THROUGH) as tab:
        expect(tab.conversation.get_by_text(LAST)).to_be_in_viewport()
        first = tab.conversation.get_by_text(FIRST)

        def go_up() -> bool:
            tab.conversation.evaluate("box => { box.scrollTop = 0; }")
            tab.page.evaluate("new Promise(requestAnimationFrame)")
            return first.count() > 0

        for _ in range(GONE_THROUGH):
            if go_up():
                break
        until(go_up, "the first row")
        expect(first).to_be_in_viewport()
        tab.button("Jump to newest").click()
        expect(tab.conversation.get_by_text(LAST)).to_be_in_viewport()
