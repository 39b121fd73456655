"""Every view with axe-core, on a desktop and on a phone, in one theme each."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from llm_server import call, finish, problem, say, status, think
from support.manager_page import Manager, Tab, Tabs, Window
from support.page_measures import switch_theme, too_wide, visit, wrong_in

EXPLAINED = """\
# Rounding

Prices are `float`, see [the docs](https://example.org/).

| in | out |
|----|-----|
| 1.005 | 1.01 |

```python
def off(price: float, by: int) -> float:
    return round(price * by / 100, 2)  # cents
```

> Half a cent goes up.
"""
OF_SESSIONS = {"inbox": "Inbox", "worktrees": "Worktrees", "cost": "Cost"}
"""Views that show sessions, with what stands above each."""
OTHERS = {
    "new": "New session",
    "governance": "Governance",
    "schedules": "Schedules",
    "settings": "Settings",
}
PANELS = ("changes", "plan", "terminal", "checkpoints", "preview")


@pytest.fixture
def narrow(tabs: Tabs) -> Iterator[Tab]:
    tab = tabs.open()
    usual = tab.page.viewport_size
    assert usual
    tab.page.set_viewport_size({"width": 320, "height": 640})
    yield tab
    tab.page.set_viewport_size(usual)


def open_list(tab: Tab) -> None:
    tab.go("")
    expect(tab.page.locator(".side-brand")).to_be_visible()


def open_menu(tab: Tab) -> None:
    tab.button("More actions", exact=True).click()
    expect(tab.page.get_by_role("menuitem").first).to_be_visible()


def open_settings(tab: Tab) -> None:
    tab.menu("Session settings…")
    expect(tab.page.get_by_role("dialog", name="Session settings")).to_be_visible()
    expect(tab.page.get_by_label("Mode", exact=True)).to_have_text("Code")


def open_models(tab: Tab) -> None:
    tab.go("new")
    tab.button("Default model").click()
    tab.page.get_by_label("Model", exact=True).click()
    expect(tab.page.get_by_role("option").first).to_be_visible()


def open_modes(tab: Tab) -> None:
    tab.go("new")
    tab.button("Default mode", exact=True).click()
    tab.page.get_by_label("Mode", exact=True).click()
    expect(tab.page.get_by_role("option", name="Architect")).to_be_visible()


def open_shortcuts(tab: Tab) -> None:
    open_list(tab)
    tab.button("Keyboard shortcuts").click()
    expect(tab.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def open_selection(tab: Tab) -> None:
    open_list(tab)
    tab.button("Select sessions").click()
    expect(tab.button("Select all")).to_be_visible()


def open_schedule(tab: Tab) -> None:
    visit(tab, "schedules", "Schedules")
    tab.button("New schedule").click()
    expect(tab.page.get_by_role("dialog", name="New schedule")).to_be_visible()


def open_import(tab: Tab) -> None:
    visit(tab, "worktrees", "Worktrees")
    tab.button("Import…").click()
    expect(tab.page.get_by_role("dialog").get_by_label("Branch", exact=True)).to_be_visible()


OF_A_SESSION = (open_menu, open_settings)
OVERLAYS: tuple[Callable[[Tab], None], ...] = (
    *OF_A_SESSION,
    open_models,
    open_modes,
    open_shortcuts,
    open_selection,
    open_schedule,
    open_import,
)


def close_overlays(tab: Tab) -> None:
    """Switch the view, which closes the overlays, and check that none is left."""
    tab.go("governance")
    for name in ("Stop selecting", "Close"):
        if tab.button(name, exact=True).is_visible():
            tab.button(name, exact=True).click()
    opened = tab.page.locator(":is(dialog, [role=menu], [role=option], .bulk-bar):visible")
    expect(opened).to_have_count(0)


def test_a_page_without_sessions_or_access_has_no_violations(
    tab: Tab, phone: Tab, manager: Manager, other_window: Window
):
    wrong = {}
    switch_theme(phone)
    for name, each in (("desktop", tab), ("phone", phone)):
        open_list(each)
        wrong |= wrong_in(each, f"empty list on {name}")
        for place, title in {**OF_SESSIONS, **OTHERS}.items():
            visit(each, place, title)
            wrong |= wrong_in(each, f"empty {place} on {name}")
    strangers = Tabs(other_window, manager)
    strangers.expected = ("401", "WebSocket")
    stranger = strangers.open(manager.url)
    expect(stranger.page.get_by_role("heading", name="This page needs a link")).to_be_visible()
    wrong |= wrong_in(stranger, "no access")
    strangers.close()
    assert wrong == {}


def test_no_page_scrolls_sideways_on_the_narrowest_screen(narrow: Tab):
    tab = narrow
    open_list(tab)
    wide = {"list": too_wide(tab.page)}
    for place, title in (OF_SESSIONS | OTHERS).items():
        visit(tab, place, title)
        wide[place] = too_wide(tab.page)
    assert {place: found for place, found in wide.items() if found} == {}


def test_every_view_is_usable_on_desktop_on_a_phone_and_with_a_screen_reader(
    tab: Tab, phone: Tab, manager: Manager
):
    session = manager.start(
        "Look at everything",
        [
            think("Cents, then."),
            say(EXPLAINED),
            call("execute_command", command="git log --oneline"),
            call("update_todo_list", todos="[x] Look\n[ ] Mend"),
        ],
        [call("write_to_file", path="look.txt", content="one\ntwo\n")],
        [finish()],
    )
    failed = manager.start("Fail", status(400, problem("No.", "invalid_request_error")))
    manager.project.git("branch", "-f", "spare")
    answers = [[call("write_to_file", path="one.py", content="x = 1\n")], [finish("**Done**.")]]
    manager.model.plays("Two ways", *answers, to_each=True)
    manager.do("start_sessions", prompt="Two ways", versions=2, auto_approve=True)
    manager.at(session, "waiting_approval")
    manager.at(failed, "error")
    made = [row for row in manager.rows().values() if row["group_id"]]
    for row in made:
        manager.at(row["session_id"], "completed")
    version = made[0]["session_id"]
    places = {
        f"session/{session}": "Look at everything",
        f"session/{failed}": "Fail",
        f"session/{version}/review": f"Review: {made[0]['name']}",
        f"versions/{made[0]['group_id']}": "Versions",
        **{f"session/{version}/{panel}": made[0]["name"] for panel in PANELS},
        **OF_SESSIONS,
    }
    wrong = {}
    switch_theme(phone)
    for name, each in (("desktop", tab), ("phone", phone)):
        open_list(each)
        wrong |= wrong_in(each, f"list on {name}")
        for place, title in places.items():
            visit(each, place, title)
            wrong |= wrong_in(each, f"{place} on {name}")
        for overlay in OVERLAYS:
            if overlay in OF_A_SESSION:
                each.open(session)
            overlay(each)
            wrong |= wrong_in(each, f"{overlay.__name__} on {name}")
            close_overlays(each)
    assert wrong == {}
    _check_roles(tab, session)
    phone.open(session)
    approve = phone.ask().get_by_role("button", name="Approve")
    expect(approve).to_be_in_viewport(ratio=1)
    expect(phone.ask().get_by_role("button", name="Reject")).to_be_in_viewport(ratio=1)
    approve.tap()
    expect(phone.state).to_contain_text("Done")


def _check_roles(tab: Tab, session: str) -> None:
    """The accessibility tree and the focus order."""
    tab.open(session)
    page = tab.page
    expect(page.get_by_role("main")).to_have_count(1)
    listed = page.get_by_role("complementary", name="Sessions").get_by_role("list")
    expect(listed.first.get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_role("log", name="Conversation")).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="Look at everything")).to_have_count(1)
    expect(tab.state).to_have_role("status")
    more = tab.button("More actions", exact=True)
    more.focus()
    page.keyboard.press("Enter")
    menu = page.get_by_role("menu", name="More actions")
    expect(menu).to_be_focused()
    expect(menu.get_by_role("menuitem").first).to_have_attribute("data-highlighted", "")
    page.keyboard.press("ArrowDown")
    expect(menu.get_by_role("menuitem").nth(1)).to_have_attribute("data-highlighted", "")
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    tab.menu("Session settings…")
    dialog = page.get_by_role("dialog", name="Session settings")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(more).to_be_focused()
    page.reload()
    expect(page.get_by_role("log", name="Conversation")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
