"""`rookery serve --web`, which is `rookery manager`, as a process."""

import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect

from rookery.cli.reports import Exit
from rookery.errors import SettingsError
from rookery.manager.cli import manager_command
from rookery.manager.sessions.session_store import manager_folder
from support.manager_project import WRITES, Project
from support.text_process import PLAINLY, Started, start_text
from support.web_server import PATIENCE, call, page_in

pytestmark = pytest.mark.anyio


class Managed:
    """The running command."""

    def __init__(self, process: Started) -> None:
        self.process = process
        self.line = process.stdout.readline() if process.stdout else ""

    @property
    def where(self) -> dict[str, Any]:
        reported: dict[str, Any] = json.loads(self.line)
        return reported

    def launched(self, launch_url: str = "") -> str:
        """The token that a link is exchanged for."""
        url, code = (launch_url or self.where["launch_url"]).split("#launch=")
        answer = httpx2.post(f"{url}api/launch", json={"code": code}, trust_env=False)
        assert answer.status_code == 200
        return str(answer.json()["token"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and everything printed."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.wait(), said


def command(project: Project, *arguments: str, built: bool = True, **environ: str) -> Started:
    page = project.folder / "page"
    if built and not page.exists():
        page_in(page)
    return start_text(
        ["serve", "--web", "-w", str(project.path), *arguments],
        {**project.environ, "PLAYED_PAGE": str(page), **environ},
        project.path,
        program=Path(__file__).parents[2] / "support/command_with_page.py",
    )


@contextmanager
def managed(project: Project, *arguments: str, **environ: str) -> Iterator[Managed]:
    with command(project, *arguments, **environ) as process:
        try:
            yield Managed(process)
        finally:
            process.kill()


def ended(project: Project, *arguments: str, built: bool = True) -> tuple[int, str, str]:
    """The exit code and output of a command that ends by itself."""
    with command(project, *arguments, built=built) as process:
        said, reported = process.communicate(timeout=PATIENCE)
    return process.wait(), said, reported


async def test_the_command_prints_its_address_and_cleans_up(project: Project):
    with managed(project, "--json", "--no-open", **PLAINLY) as manager:
        assert manager.where == {
            "url": manager.where["url"],
            "launch_url": manager.where["launch_url"],
            "pid": manager.process.pid,
        }
        token = manager.launched()
        socket = manager.where["url"].replace("http:", "ws:") + "ws"
        async with connect(socket, proxy=None) as page:
            answer = await call(page, "initialize", protocol=1, token=token)
            assert answer["result"]["protocol"] == 1
            assert {"list_devices", "revoke_device"} <= {*answer["result"]["requests"]}
            assert "follow_id" in (await call(page, "follow_list"))["result"]
            with anyio.fail_after(PATIENCE):
                listed = json.loads(await page.recv())
            assert listed["params"]["overview"]["project"] == str(project.path)
            assert listed["params"]["overview"]["blocked_requests"] == 0
        folder = project.places.state / "manager"
        note = folder / "server.json"
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        assert manager.end() == (Exit.TERMINATED, "")
    assert {path.name for path in folder.iterdir() if path.is_file()} == {"devices.json", "port"}
    left = {path.name for path in manager_folder(project.places, project.path).iterdir()}
    assert left <= {"agent-manager.json", "agent-manager.json.lock", "project.json"}


def test_tokens_and_codes_are_never_logged_or_stored(project: Project):
    """Neither in the output nor in any file; the same for wrong ones."""
    with managed(project, "--json", "--no-open") as manager:
        token, code = manager.launched(), manager.where["launch_url"].partition("=")[2]
        url, wrong = manager.where["url"], "Zq7wrong" * 8
        for given in (token, wrong):
            bearer = {"Authorization": f"Bearer {given}"}
            httpx2.get(f"{url}api/health", headers=bearer, trust_env=False)
            httpx2.get(f"{url}api/health?token={given}", trust_env=False)
            httpx2.post(f"{url}api/launch", json={"code": given}, trust_env=False)
        written = files_that_hold(project.folder, token, code, wrong)
        assert written == []
        _, said = manager.end()
        assert not [secret for secret in (token, code, wrong) if secret in said]
    assert files_that_hold(project.folder, token, code, wrong) == []
    assert list(project.places.state.rglob("manager/*"))


def files_that_hold(folder: Path, *secrets: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(s.encode() in path.read_bytes() for s in secrets)]


def test_the_launch_link_is_printed_on_one_line(project: Project):
    with managed(project, "--no-open") as manager:
        reported = r"Open this within a minute; it works once: (http://\S+)\n"
        found = re.fullmatch(reported, manager.line)
        assert found
        manager.launched(found[1])
        code, said = manager.end(signal.SIGINT)
        assert code == Exit.INTERRUPTED
        assert "Ctrl-C ends it; sessions keep running." in said


def test_a_second_command_opens_the_running_managers_page(project: Project):
    with managed(project, "--json", "--no-open") as manager:
        code, said, _ = ended(project, "--json", "--no-open")
        again = json.loads(said)
        assert (code, again["pid"]) == (0, manager.process.pid)
        assert again["launch_url"] != manager.where["launch_url"]
        token = manager.launched()
        assert manager.launched(again["launch_url"]) != token
        code, said, reported = ended(project, "--no-open")
        assert code == 0
        assert f"is already running, as process {manager.process.pid}" in reported
        assert "#launch=" in said
        code, _, reported = ended(project, "--no-open", "--pair")
        assert code == Exit.USAGE
        assert "serves this machine only" in reported
        code, _, reported = ended(project, "--no-open", "--port", "0")
        assert code == Exit.USAGE
        assert "To use another address, end it first." in reported

        url, bearer = manager.where["url"], {"Authorization": f"Bearer {token}"}
        for _ in range(3):
            httpx2.get(f"{url}api/health", trust_env=False)
        asked = {"kind": "list_sessions"}
        listed = httpx2.post(f"{url}api/do", json=asked, headers=bearer, trust_env=False)
        assert listed.json()["overview"]["blocked_requests"] == 3


def test_the_browser_opens_without_blocking_the_command(project: Project, tmp_path: Path):
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\nread never < {opened}\n', "utf-8")
    browser.chmod(0o700)
    with managed(project, "--json", BROWSER=f"{browser} %s &") as manager:
        link = opened.read_text(encoding="utf-8").strip()
        assert link == manager.where["launch_url"]
        manager.launched()
        opened.write_text("done\n", encoding="utf-8")
        manager.end()


def test_a_missing_page_build_names_the_command_to_run(project: Project):
    code, said, reported = ended(project, built=False)
    assert (code, said) == (Exit.USAGE, "")
    assert "make web" in reported
    with command(project, "--json", "--no-open", built=False) as process:
        try:
            manager = Managed(process)
            assert "make web" in httpx2.get(manager.where["url"], trust_env=False).text
            manager.end()
        finally:
            process.kill()


def test_unsafe_or_invalid_flags_are_refused(project: Project):
    for *flags, sentence in (
        ("--host", "192.0.2.9", "Add --tls, or --tls-cert and --tls-key"),
        ("--host", "0.0.0.0", "--tls", "every network"),
        ("--behind-tunnel", "http://name.example", "https"),
        ("--pair", "No manager is running that devices can reach"),
        ("--port", "70000", "70000"),
    ):
        code, said, reported = ended(project, "--no-open", *flags)
        assert (flags, code, said) == (flags, Exit.USAGE, "")
        assert sentence in reported, flags


def test_devices_are_paired_through_a_tunnel(project: Project):
    with managed(
        project, "--json", "--no-open", "--behind-tunnel", "https://name.example"
    ) as manager:
        address, code = manager.where["pairing_url"].split("#pair=")
        assert address == "https://name.example/"
        answer = httpx2.post(
            f"{manager.where['url']}api/pair",
            json={"code": code, "name": "My phone"},
            headers={"Host": "name.example", "Origin": "https://name.example"},
            trust_env=False,
        )
        assert answer.status_code == 200
        ended_with, said, reported = ended(project, "--no-open", "--pair")
        assert ended_with == 0
        assert "https://name.example/#pair=" in reported
        _, said = manager.end()
        assert "My phone is paired." in said
        assert "The operator of the tunnel can read everything" in said


@pytest.mark.parametrize("flags", [[], ["--stop-sessions"]], ids=["run on", "stopped"])
async def test_sessions_keep_running_after_exit_unless_a_flag_stops_them(
    project: Project, flags: list[str]
):
    with project.hosted(project.start_options(WRITES)) as hosted:
        session_id = hosted.wait_for_line("started")
        hosted.wait_for_line("waiting_approval")
        hosted.kill()
    with managed(project, "--json", "--no-open", *flags) as manager:
        assert manager.where["url"]
        code, said = manager.end(signal.SIGINT)
    assert code == Exit.INTERRUPTED
    assert ("1 session keeps running. To stop: rookery sessions stop-all" in said) is (not flags)
    if flags:
        assert "Stopping 1 session." in said
        await project.quiet()
    async with project.supervised() as watched:
        state = watched.state(session_id)
        assert state == ("stopped" if flags else "waiting_approval")


async def test_the_command_waits_for_a_brief_lock_on_the_sessions(project: Project):
    async with project.supervised():
        process = command(project, "--json", "--no-open")
        with anyio.fail_after(PATIENCE):
            while not is_at_the_lock(process.pid):  # noqa: ASYNC110 (it sends no event)
                await anyio.sleep(0.02)
    with process:
        try:
            assert Managed(process).where["pid"] == process.pid
        finally:
            process.kill()


def is_at_the_lock(pid: int) -> bool:
    try:
        opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(path.endswith("agent-manager.json.lock") for path in opened)


@pytest.mark.parametrize("package", ["segno", "starlette"])
def test_without_one_of_its_packages_it_says_how_to_install_them(
    package: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(manager_command, "find_spec", lambda name: None if name == package else 1)
    monkeypatch.setattr(manager_command, "_manage", None)
    with pytest.raises(SettingsError, match="make web"):
        manager_command._run(Path(), no_open=True, pair=True, stop_sessions=False, as_json=False)
