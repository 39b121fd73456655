"""Draw the Agent Manager's pictures in docs/pictures with a real browser: `make docs`."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from llm_server import call, finish, gate, say, think, usage
from rookery.browser.browser_action import find_browser
from rookery.manager.web.page_files import HOW_TO_BUILD, PageFiles
from support.intent_files import SPEC_EXAMPLE, laid_out
from support.manager_page import Colours, Manager, Project, Tab, Tabs, Window, managed
from support.scripted_model import Model

COLOURS: tuple[Colours, ...] = ("light", "dark")
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDE = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "device_scale_factor": 2}
BEFORE = {
    "shop/prices.py": '''\
"""What things cost."""


def off(price, by):
    """The price with so many percent off."""
    return price - price * by / 10


def total(prices):
    return sum(prices)
''',
    "tests/test_prices.py": "from shop.prices import off\n\nassert off(200, 10) == 180\n",
}
WRONG = "price - price * by / 10"
ROUNDED = BEFORE["shop/prices.py"].replace(WRONG, "round(price - price * by / 100, 2)")
FOUND = """\
The discount is **ten times too large**: `off` divides by 10 where percent need 100.

```python
return price - price * by / 10   # 200 with 10 % off gives 0
```

1. Correct the divisor in `shop/prices.py`.
2. Run the tests.
"""
QUESTION = "Should half a cent be rounded up, or to the even cent as banks do?"
SPENT = usage(14_200, 830)


def scene(manager: Manager) -> dict[str, str]:
    """Sessions of a small shop in every state, by their names here."""
    done = manager.start("Add a test for an empty basket", [SPENT, finish("It passes.")])
    manager.at(done, "completed")
    question = manager.start(
        "Round prices to cents",
        [
            SPENT,
            call(
                "ask_followup_question",
                question=QUESTION,
                follow_up=[{"text": "Up, as on a receipt"}, {"text": "To the even cent"}],
            ),
        ],
    )
    manager.at(question, "waiting_input")
    asking = manager.start(
        "The discount is wrong",
        [
            SPENT,
            think("Percent, so a hundred."),
            say(FOUND),
            call("read_file", path="shop/prices.py"),
        ],
        [SPENT, call("execute_command", command="git log --oneline -- shop/prices.py")],
        [
            SPENT,
            call(
                "edit", file_path="shop/prices.py", old_string="* by / 10", new_string="* by / 100"
            ),
        ],
    )
    manager.at(asking, "waiting_approval")
    held = gate()
    working = manager.start("Explain the basket", [SPENT, say("The basket keeps ", held)])
    held.wait_until_reached()
    manager.model.plays(
        "Make prices exact",
        [SPENT, say("I read it first."), call("read_file", path="shop/prices.py")],
        [SPENT, call("write_to_file", path="shop/prices.py", content=ROUNDED)],
        [SPENT, finish("Prices are rounded to cents.")],
        to_each=True,
    )
    versions = manager.do(
        "start_sessions", prompt="Make prices exact", versions=2, auto_approve=True
    )["session_ids"]
    for session_id in versions:
        manager.at(session_id, "completed")
    return {
        "asking": asking,
        "question": question,
        "working": working,
        "version": versions[0],
        "group": manager.rows()[versions[0]]["group_id"],
    }


def draw(browser: Browser, manager: Manager, named: dict[str, str]) -> None:
    for theme in COLOURS:
        with looking(browser, manager, theme, **WIDE) as tab:
            tab.open(named["asking"])
            expect(tab.button("Approve")).to_be_enabled()
            save(tab, f"session-{theme}")
            tab.go("inbox")
            asking = tab.page.locator(".inbox-card", has_text="The discount is wrong")
            asking.locator(".inbox-fold").click()
            expect(tab.button("Approve")).to_be_enabled()
            save(tab, f"inbox-{theme}")
    with looking(browser, manager, **WIDE) as tab:
        tab.go("new")
        tab.page.get_by_label("Prompt").fill("Show prices with the currency's sign")
        tab.button("1 version").click()
        tab.page.get_by_role("radio", name="2").check()
        save(tab, "new-agent")
        tab.open(named["version"], "review")
        file = tab.page.get_by_role("region", name="shop/prices.py", exact=True)
        file.get_by_role("button", name="Comment on line 6", exact=True).click()
        file.get_by_role("textbox").fill("Use Decimal here, floats lose cents.")
        file.get_by_role("button", name="Add comment").click()
        save(tab, "review")
        tab.go(f"versions/{named['group']}")
        expect(tab.page.get_by_role("button", name="Keep this version").last).to_be_enabled()
        expect(tab.page.locator(".file-versions table")).to_have_count(2)
        save(tab, "versions")
        tab.go("governance")
        expect(tab.page.locator("main .card").first).to_be_visible()
        save(tab, "governance")
    with looking(browser, manager, **PHONE) as tab:
        tab.open(named["asking"])
        expect(tab.button("Approve")).to_be_enabled()
        save(tab, "phone")
        tab.go("")
        expect(tab.page.get_by_role("main", name="Sessions")).to_be_visible()
        save(tab, "phone-sessions")


@contextmanager
def looking(
    browser: Browser, manager: Manager, colours: Colours = "light", **look: Any
) -> Iterator[Tab]:
    window = Window(browser, **look)
    tabs = Tabs(window, manager)
    yield tabs.open(colours=colours)
    tabs.close()
    window.close()


def save(tab: Tab, name: str) -> None:
    expect(tab.page.locator("main .spinner:visible")).to_have_count(0)
    tab.page.mouse.move(0, 0)
    tab.page.screenshot(path=PICTURES / f"manager-{name}.png", animations="disabled", caret="hide")


def main() -> None:
    if not PageFiles().is_built:
        raise SystemExit(f"The page is not built: run {HOW_TO_BUILD} first.")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Model() as model, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=find_browser("", os.environ["PATH"]),
            args=["--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"],
            chromium_sandbox=os.geteuid() != 0,
        )
        project = Project(Path(folder), model, "shop")
        project.commit(BEFORE)
        try:
            with managed(project) as manager:
                named = scene(manager)
                # governed sessions ask other questions, so only their page shows intents
                laid_out(project.path, SPEC_EXAMPLE.replace("2026-03-31", "2099-03-31"))
                draw(browser, manager, named)
        finally:
            project.end_all()
            browser.close()


if __name__ == "__main__":
    main()
