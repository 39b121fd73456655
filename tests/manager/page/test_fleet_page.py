"""The pages of a fleet, with a real database and worker."""

from pathlib import Path

from playwright.sync_api import expect

from support.fleet_machines import Machine, new_remote, submit, wait
from support.manager_page import Manager, Project, Tabs, Window, managed
from support.page_measures import visit, wrong_in
from support.postgres import Postgres
from support.scripted_model import Model

ASKS = """
- calls: [{tool: write_to_file, arguments: {path: one.txt, content: hello}}]
- say: Done.
"""


def test_a_fleet_is_usable_on_desktop_and_on_a_phone(
    window: Window, phone_window: Window, model: Model, postgres: Postgres, tmp_path: Path
):
    address, remote = postgres.new_database(), new_remote(tmp_path / "git")
    script = tmp_path / "asks.yaml"
    script.write_text(ASKS)
    worker = Machine(
        tmp_path, "build-1", address, script, "--label", "gpu", "--permission-mode", "ask"
    )
    try:
        worker.wait_until_ready()
        submit(address, "asks", remote)
        submit(address, "queued", remote, label="tpu")
        assert wait(address, "asks").state == "waiting"
        project = Project(tmp_path, model, "fleet")
        with managed(project, "--database", address) as manager:
            wrong = _wrong_in_fleet({"desktop": window, "phone": phone_window}, manager)
    finally:
        worker.close()
    assert wrong == {}


def _wrong_in_fleet(windows: dict[str, Window], manager: Manager) -> dict[str, list[str]]:
    wrong = {}
    for name, window in windows.items():
        tabs = Tabs(window, manager)
        tab = tabs.open(colours="dark" if name == "phone" else "light")
        visit(tab, "fleet", "Fleet")
        expect(tab.page.get_by_role("link", name="Go", exact=True)).to_have_count(2)
        queues = tab.page.get_by_role("region", name="Queues")
        expect(queues.get_by_role("columnheader", name="Waiting")).to_be_visible()
        wrong |= wrong_in(tab, f"fleet on {name}")
        visit(tab, "fleet/queued", "Go")
        expect(tab.page.get_by_text("a worker with the label “tpu” is free")).to_be_visible()
        wrong |= wrong_in(tab, f"queued session on {name}")
        visit(tab, "fleet/asks", "Go")
        expect(tab.ask("Create one.txt?")).to_contain_text("hello")
        expect(tab.button("Approve")).to_be_enabled()
        expect(tab.button("Reject", exact=True)).to_be_in_viewport(ratio=1)
        wrong |= wrong_in(tab, f"asking session on {name}")
        tabs.close()
    return wrong
