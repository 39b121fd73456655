"""The page in dark and light, on a phone, for a screen reader, and with content that means harm."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request, expect

from llm_server import call, finish, say, think
from support.manager_page import Colours, Manager, Project, Tab, Tabs, Window, until
from support.page_measures import faint_texts, nameless, too_wide

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
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
COLOURS: tuple[Colours, ...] = ("light", "dark")
PLACES = {
    "inbox": "Inbox",
    "new": "New session",
    "worktrees": "Worktrees",
    "governance": "Governance",
    "settings": "Settings",
}
"""With what stands above each."""
RAN = "window.__ran = 1"
HOSTILE = (
    f"<script>{RAN}</script><img src=x onerror='{RAN}'><svg onload='{RAN}'></svg>"
    f'<a href="javascript:{RAN}">here</a> [there](javascript:{RAN.replace(" ", "")}) '
    f"![seen](https://example.org/spy.png) <iframe srcdoc='<script>parent.{RAN}</script>'></iframe>"
    "\u202egnp.exe\u2066 " + "W" * 3000
)


@pytest.fixture
def phone(browser: Browser, manager: Manager) -> Iterator[Tab]:
    window = Window(browser, **PHONE)
    tabs = Tabs(window, manager)
    yield tabs.open()
    tabs.close()
    window.close()


HOSTILE_PLACES = {
    "session/{}": re.compile("^<b>x</b>"),
    "session/{}/review": re.compile("^Review: <b>x</b>"),
    "inbox": "Inbox",
    "worktrees": "Worktrees",
}


def asking(manager: Manager, prompt: str) -> str:
    """A session that has said something of every kind, and asks."""
    session = manager.start(
        prompt,
        [
            think("Cents, then."),
            say(EXPLAINED),
            call("execute_command", command="git log --oneline"),
            call("update_todo_list", todos="[x] Look\n[ ] Mend"),
        ],
        [call("write_to_file", path=f"{prompt}.txt", content="one\ntwo\n")],
        [finish()],
    )
    manager.at(session, "waiting_approval")
    return session


def places(session: str, name: str) -> dict[str, str]:
    return {f"session/{session}": name, f"session/{session}/review": f"Review: {name}", **PLACES}


def visit(tab: Tab, place: str, title: str | re.Pattern[str]) -> None:
    """Go there, until nothing is being waited for."""
    tab.go(place)
    heads = ":is(.page-head, .session-head) h1:visible"
    expect(tab.page.locator(heads)).to_have_text(title)
    expect(tab.page.locator("main .spinner")).to_have_count(0)


def test_every_text_can_be_read_and_every_control_has_a_name(tab: Tab, manager: Manager):
    name = "Look at everything"
    session = asking(manager, name)
    wrong = {}
    for place, title in places(session, name).items():
        visit(tab, place, title)
        if found := nameless(tab.page):
            wrong[place] = found
        for colours in COLOURS:
            tab.page.emulate_media(color_scheme=colours)
            expect(tab.page.locator(f"html[data-theme={colours}]")).to_be_visible()
            if found := faint_texts(tab.page):
                wrong[f"{place} in {colours}"] = found
    assert wrong == {}


def test_dark_and_light_are_as_the_system_wants_and_can_be_chosen(tabs: Tabs):
    tab = tabs.open(colours="dark")
    ground = "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number)"
    until(lambda: max(tab.page.evaluate(ground)[:3]) < 90, "a dark ground")
    tab.button("Light theme", exact=True).click()
    until(lambda: min(tab.page.evaluate(ground)[:3]) > 200, "a light ground")
    tab.page.reload()
    expect(tab.button("Dark theme", exact=True)).to_be_visible()
    until(lambda: min(tab.page.evaluate(ground)[:3]) > 200, "a light ground")


def test_on_a_phone_nothing_is_too_wide_and_approving_is_at_hand(phone: Tab, manager: Manager):
    tab, name = phone, "Look from a phone"
    session = asking(manager, name)
    wrong = {}
    checkpoints = {f"session/{session}/checkpoints": f"Checkpoints: {name}"}
    for place, title in {**places(session, name), **checkpoints}.items():
        visit(tab, place, title)
        if found := too_wide(tab.page):
            wrong[place] = found
    tab.go("")
    expect(tab.page.locator(".side-brand")).to_be_visible()
    if found := too_wide(tab.page):
        wrong["the list"] = found
    tab.open(session)
    approve = tab.ask().get_by_role("button", name="Approve")
    expect(approve).to_be_in_viewport(ratio=1)
    expect(tab.ask().get_by_role("button", name="Reject")).to_be_in_viewport(ratio=1)
    assert wrong == {}
    approve.tap()
    expect(tab.state).to_contain_text("Done")


def test_roles_say_what_everything_is(tab: Tab, manager: Manager):
    session = asking(manager, "Look for roles")
    tab.open(session)
    page = tab.page
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("complementary", name="Sessions").get_by_role("list")).to_have_count(1)
    expect(page.get_by_role("log", name="Conversation")).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="Look for roles")).to_have_count(1)
    expect(tab.state).to_have_role("status")
    more = tab.button("More actions", exact=True)
    more.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowDown")
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


def test_what_means_harm_does_none(tab: Tab, manager: Manager, project: Project):
    asked_for: list[str] = []

    def ask(request: Request) -> None:
        asked_for.append(request.url)

    tab.page.on("request", ask)
    name = "<img src=x onerror=window.__ran=1>\u202etxt.sh"
    session = manager.start(
        "Mean harm " + HOSTILE,
        [
            think(HOSTILE),
            say(HOSTILE),
            call("write_to_file", path=name, content=HOSTILE),
            call("execute_command", command=f"printf '%s\\033]0;title\\007\\033[31m' '{name}'"),
        ],
        [call("ask_followup_question", question=HOSTILE, follow_up=[{"text": HOSTILE}])],
        [finish(HOSTILE)],
        auto_approve=True,
        label="<b>x</b>\u202e" + "L" * 30,
        where="worktree",
    )
    manager.at(session, "waiting_input", "waiting_approval")
    for place, title in HOSTILE_PLACES.items():
        visit(tab, place.format(session), title)
        expect(tab.page.locator("main")).to_contain_text(re.compile("gnp|txt|U\\+202E"))
        assert too_wide(tab.page) == []
        assert tab.page.evaluate("window.__ran") is None
        assert tab.page.locator("main :is(script, iframe, img[src^=http], [onerror])").count() == 0
        assert tab.page.locator("a[href^='javascript:' i]").count() == 0
        assert "\u202e" not in tab.page.locator("body").inner_text()
    tab.open(session)
    tab.ask("Question from the agent").get_by_role("button", name="gnp").click()
    expect(tab.state).to_contain_text("Done")
    assert too_wide(tab.page) == []
    tab.page.remove_listener("request", ask)
    assert {url for url in asked_for if not url.startswith(manager.url)} == set()


def test_a_heap_of_marks_does_not_freeze_the_page(tab: Tab, manager: Manager):
    question = call("ask_followup_question", question="Well?", follow_up=[{"text": "Yes"}])
    session = manager.start("Heap", [say("a" + "\u0301" * 100_000), question])
    manager.at(session, "waiting_input")
    tab.open(session)
    expect(tab.conversation.locator(".unseen").first).to_contain_text("more marks")
    expect(tab.ask("Question from the agent")).to_be_visible()
