"""Schedules on the page: added, run, called by a webhook, and what was missed."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import expect

from llm_server import finish
from support.manager_page import Manager, Project, Tab, Tabs, Window, managed
from support.page_measures import too_wide, violations
from support.scripted_model import Model

DAY = 24 * 3600 * 1000


def card(tab: Tab, name: str):
    return tab.page.get_by_role("listitem", name=name)


def new_schedule(tab: Tab, prompt: str, kind: str):
    tab.page.get_by_role("link", name="Schedules").click()
    tab.button("New schedule").click()
    dialog = tab.page.get_by_role("dialog", name="New schedule")
    dialog.get_by_label("Prompt").fill(prompt)
    dialog.get_by_role("radio", name=kind).check()
    dialog.get_by_role("radio", name="Project").check()
    return dialog


def test_a_schedule_is_added_run_paused_changed_and_removed(tab: Tab, manager: Manager):
    manager.model.plays("Look for news", [finish("Looked.")])
    dialog = new_schedule(tab, "Look for news", "Repeatedly")
    dialog.get_by_label("Cron line").fill("0 25 * * *")
    dialog.get_by_role("button", name="Add schedule").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is no hour")
    dialog.get_by_role("button", name="Every day").click()
    dialog.get_by_label("Budget per day in dollars").fill("2")
    dialog.get_by_role("radio", name="Ask", exact=True).check()
    assert violations(tab.page) == []
    dialog.get_by_role("button", name="Add schedule").click()
    expect(dialog).to_have_count(0)
    news = card(tab, "Look for news")
    expect(news).to_contain_text("0 9 * * *")
    expect(news).to_contain_text("Next:")
    expect(news).to_contain_text("Asks before changes")
    expect(news).to_contain_text("$0 of $2.00 used today")
    assert too_wide(tab.page) == []
    news.get_by_role("button", name="Run now").click()
    news.get_by_role("list", name="Last runs").get_by_role("link").click()
    expect(tab.conversation).to_contain_text("Looked.")
    tab.go("schedules")
    news.get_by_role("button", name="Pause").click()
    expect(news).to_contain_text("Paused")
    news.get_by_role("button", name="Change…").click()
    change = tab.page.get_by_role("dialog", name="Change Look for news")
    change.get_by_label("Name").fill("News")
    change.get_by_role("button", name="Save").click()
    card(tab, "News").get_by_role("button", name="Resume").click()
    expect(card(tab, "News")).to_contain_text("Next:")
    card(tab, "News").get_by_role("button", name="Remove…").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(tab.page.get_by_role("main")).to_contain_text("No schedules yet.")
    assert manager.do("list_schedules") == []


def test_a_webhook_starts_a_session_that_the_page_shows(tab: Tab, manager: Manager):
    manager.model.plays("Mend the build", [finish("Mended.")])
    dialog = new_schedule(tab, "Mend the build", "By a webhook")
    dialog.get_by_role("button", name="Add schedule").click()
    secret = tab.page.get_by_role("dialog", name="Webhook of Mend the build")
    words = secret.locator("pre").inner_text()
    secret.get_by_role("button", name="Done").click()
    url, token = re.findall(r"http\S+|(?<=Bearer )\w+", words)
    request = urllib.request.Request(
        url,
        json.dumps({"text": "Build 7 failed.", "id": "7"}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as answer:
        (session_id,) = json.load(answer)["session_ids"]
    manager.at(session_id, "completed")
    tab.open(session_id)
    expect(tab.conversation).to_contain_text("> Build 7 failed.")
    expect(tab.conversation).to_contain_text("Mended.")
    tab.go("schedules")
    card(tab, "Mend the build").get_by_role("button", name="New token…").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Make a new token").click()
    expect(secret.locator("pre")).not_to_contain_text(token)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        opener.open(request)
    (row,) = manager.do("list_schedules")
    manager.do("remove_schedule", id=row["id"])


def test_runs_are_missed_while_no_manager_runs_and_the_next_one_says_so(
    window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    with managed(project) as first:
        first.do("add_schedule", prompt="Every day", cron="@daily", where="local")
        first.end()
    (file,) = project.places.state.glob("manager/*/schedules.json")
    (stored,) = json.loads(file.read_text())
    stored["checked"] -= 3 * DAY
    file.write_text(json.dumps([stored]))
    with managed(project) as second:
        tabs = Tabs(window, second)
        tab = tabs.open()
        notice = tab.page.get_by_role("main").get_by_text("3 scheduled runs did not start")
        expect(notice).to_be_visible()
        tab.go("schedules")
        expect(card(tab, "Every day")).to_contain_text("No manager was running")
        card(tab, "Every day").get_by_role("button", name="Dismiss").click()
        expect(notice).to_have_count(0)
        assert second.rows() == {}
        tabs.close()
    project.end_all()
