"""The VS Code extension without VS Code: its logic drives the real `rookery acp`, and its page is
shown by a real browser."""

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, sync_playwright

from llm_server import LlmServer, call, finish, say
from rookery.browser.browser_action import find_browser
from rookery.errors import ToolError
from support.model_words import question, received, shell, write
from support.terminal_session import COMMAND, Installed, at

VSCODE = Path(__file__).parents[2] / "editors" / "vscode"
SECONDS = 120
POSTED = "window.posted = []; window.acquireVsCodeApi = () => ({postMessage: m => posted.push(m)})"

HOSTILE = (
    "<script>document.title = 'no'</script>",
    "<img src=x onerror=\"document.title = 'no'\">",
    "<svg onload=\"document.title = 'no'\"><iframe src=//elsewhere.test></iframe></svg>",
    "</p></div></main><style>* { display: none }</style><form action=//elsewhere.test>",
    "![image](http://elsewhere.test/x.png) <http://elsewhere.test>",
    "[link](javascript:document.title='no') [run](command:workbench.action.quit)",
    "**<b onclick=x>bold</b>** `<i>code</i>` # <h1>",
    "```<script>\n</pre><script>document.title = 'no'</script>\n```",
    "# <a href=command:x>heading</a>",
    "- <a href=vscode://x>item</a>",
)
ELEMENTS = (
    "[...document.body.querySelectorAll('*')].map(e => [e.localName, ...e.getAttributeNames()])"
)
PLAIN = {
    *("b", "button", "code", "details", "div", "footer", "main", "option", "p", "pre", "script"),
    *("section", "select", "span", "summary", "textarea"),
}
HARMLESS = {
    *("aria-label", "aria-live", "class", "hidden", "id", "placeholder", "rows", "title", "value"),
    *("open", "src"),
}


def in_folder(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=VSCODE,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def extension() -> Path:
    """The extension's folder, with its packages and its tests built."""
    if not shutil.which("npm"):
        pytest.skip("npm, which builds the extension, is not installed")
    installed = VSCODE / "node_modules" / ".package-lock.json"
    lock = VSCODE / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        done = in_folder("npm", "ci", "--no-audit", "--no-fund")
        if done.returncode:
            pytest.skip(f"npm could not install the extension's packages: {done.stderr[-200:]}")
    done = in_folder("node", "build.mjs", "--tests")
    assert done.returncode == 0, done.stderr
    return VSCODE


@pytest.fixture(scope="module")
def page(extension: Path) -> Iterator[Page]:
    """The chat view; VS Code itself is played by `acquireVsCodeApi` and messages to the window."""
    try:
        program = find_browser("", os.environ["PATH"])
    except ToolError as error:
        pytest.skip(str(error))
    source = "http://page.test"
    html = (extension / "media" / "page.html").read_text()
    html = html.replace("{source}", source).replace("{folder}", source)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or program,
            args=["--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"],
            chromium_sandbox=os.geteuid() != 0,
        )
        page = browser.new_page(viewport={"width": 420, "height": 800})
        page.add_init_script(POSTED)
        page.route("**", lambda route: route.abort())
        page.route(f"{source}/", lambda route: route.fulfill(body=html, content_type="text/html"))
        for name in ("page.js", "page.css"):
            served = partial(fulfill, extension / "dist" / name)
            page.route(f"{source}/{name}", served)
        page.goto(f"{source}/")
        yield page
        browser.close()


def fulfill(path: Path, route: Route) -> None:
    route.fulfill(path=path)


def show(page: Page, **message: Any) -> None:
    page.evaluate(
        """message => new Promise(resolve => {
            window.addEventListener("message", resolve, {once: true});
            window.postMessage(message);
        })""",
        message,
    )


def asked(**more: Any) -> dict[str, Any]:
    empty = {"notes": "", "command": "", "pieces": [], "proposals": [], "free": False}
    options = [
        {"id": "once", "label": "Allow once", "kind": "allow_once"},
        {"id": "reject", "label": "Reject", "kind": "reject_once"},
    ]
    return {"id": "q1", "title": "Run a command", "options": options} | empty | more


def status(**more: Any) -> dict[str, Any]:
    names = ("plan", "options", "completions", "attached", "questions")
    texts = {"title": "", "usage": "12% of context", "busy": False, "needsKey": False}
    return texts | {name: [] for name in names} | more


def test_types_are_right_and_the_package_has_what_its_manifest_names(extension: Path):
    done = in_folder("npm", "run", "--silent", "check")
    assert done.returncode == 0, done.stdout
    done = in_folder("npm", "run", "--silent", "build")
    assert done.returncode == 0, done.stderr
    about = json.loads((extension / "package.json").read_text())
    with zipfile.ZipFile(extension / "rookery.vsix") as packed:
        names = set(packed.namelist())
        manifest = packed.read("extension.vsixmanifest").decode()
    named = [about["main"], about["contributes"]["viewsContainers"]["activitybar"][0]["icon"]]
    assert {f"extension/{name.removeprefix('./')}" for name in named} < names
    assert {"[Content_Types].xml", "extension/LICENSE.txt", "extension/media/page.html"} < names
    assert f'Version="{about["version"]}"' in manifest
    assert not any("node_modules" in name for name in names)


def test_the_lock_file_names_no_registry():
    assert "://" not in "".join(
        str(each.get("resolved", ""))
        for each in json.loads((VSCODE / "package-lock.json").read_text())["packages"].values()
    )


def test_a_workspace_cannot_choose_the_program_and_must_be_trusted():
    about = json.loads((VSCODE / "package.json").read_text())
    assert about["capabilities"]["untrustedWorkspaces"]["supported"] is False
    settings = about["contributes"]["configuration"]["properties"]
    assert {each["scope"] for each in settings.values()} == {"machine"}


def test_the_logic_drives_the_real_agent(extension: Path, tmp_path: Path):
    rookery = Installed(tmp_path)
    (rookery.workspace / "a.txt").write_text("one\n")
    answers = (
        [call("read_file", path="a.txt")],
        [write("a.txt", "one\ntwo\n")],
        [shell("touch forbidden")],
        [shell("uname -s; true > made")],
        [question()],
        [finish("Done.")],
        [shell("touch late")],
        [shell("touch left")],
        [say("All is well.")],
    )
    with LlmServer(*answers) as server:
        done = in_folder(
            "node",
            "--test",
            f"--test-timeout={SECONDS}000",
            "dist/test/",
            **rookery.environ,
            ROOKERY_SANDBOX_USE="off",
            ROOKERY_COMMAND=json.dumps([COMMAND, "acp", *at(server)]),
            ROOKERY_WORKSPACE=str(rookery.workspace),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        first = received(server.requests[0])
        assert "a.txt:2: error: a strange word" in first
        assert "Lines 1 to 1 of a.txt:" in first
        assert "unsaved" in received(server.requests[1])
        assert "9090" in received(server.requests[5])


def test_the_view_shows_text_as_text_and_sends_exactly_the_chosen_option(page: Page):
    hostile = "<img src=x onerror=\"document.title='no'\"> **bold** [a](command:x) `code`"
    rows = [
        {"id": "r1", "kind": "user", "text": hostile},
        {"id": "r2", "kind": "agent", "text": hostile},
        {
            "id": "tool-1",
            "kind": "tool",
            "text": hostile,
            "tool": {"kind": "execute", "status": "failed", "pieces": [], "output": hostile},
        },
    ]
    show(page, kind="rows", reset=True, rows=rows)
    show(page, kind="status", status=status(questions=[asked(command="rm a\u202eb\n\n\n\n\nrm c")]))
    assert page.locator("img, a").count() == 0
    assert page.title() == "Rookery"
    assert page.locator("b", has_text="bold").count() == 1
    assert page.locator("details.tool").get_attribute("open") is None
    assert page.locator(".question .code").inner_text() == "rm a<U+202E>b\n<4 blank lines>\nrm c"
    page.get_by_role("button", name="Reject").click()
    sent = {"kind": "choose", "question": "q1", "option": "reject"}
    assert page.evaluate("posted.at(-1)") == sent


def test_hostile_text_makes_no_elements_requests_or_messages(page: Page):
    rows = [
        {"id": f"h{number}-{kind}", "kind": kind, "text": text}
        for number, text in enumerate(HOSTILE)
        for kind in ("user", "agent", "thought", "notice", "error")
    ]
    every = "\n".join(HOSTILE)
    piece = {"path": every, "oldText": None, "newText": every, "line": 1}
    tool = {"kind": "edit", "status": every, "pieces": [piece], "output": every}
    choice = {"value": every, "name": every, "about": every}
    shown = status(
        usage=every,
        attached=[every],
        plan=[{"content": every, "status": every}],
        completions=[{"name": "@x", "about": every}],
        options=[{"id": every, "name": every, "current": every, "choices": [choice]}],
        questions=[asked(id="q2", title=every, notes=every, command=every, pieces=[piece])],
    )
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    sent = page.evaluate("posted.length")
    show(page, kind="rows", reset=True, rows=[*rows, {**rows[0], "id": "t", "tool": tool}])
    show(page, kind="status", status=shown)
    page.get_by_label("Message").fill("@x")
    made = page.evaluate(ELEMENTS)
    assert {each[0] for each in made} <= PLAIN
    assert {name for each in made for name in each[1:]} <= HARMLESS
    assert page.locator("script").count() == 1
    assert (requests, page.evaluate("posted.length"), page.title()) == ([], sent, "Rookery")
    page.get_by_label("Message").fill("")


def test_the_page_can_run_no_other_script_and_reach_no_other_place(page: Page):
    blocked = page.evaluate(
        """() => new Promise(resolve => {
            const seen = [];
            document.addEventListener("securitypolicyviolation", event => {
                if (seen.push(event.effectiveDirective) === 3) resolve(seen.sort());
            });
            const script = document.createElement("script");
            script.textContent = "document.title = 'no'";
            document.body.append(script);
            new Image().src = "http://elsewhere.test/x.png";
            fetch("http://elsewhere.test/").catch(() => {});
        })"""
    )
    assert blocked == ["connect-src", "img-src", "script-src-elem"]
    assert page.title() == "Rookery"


def test_enter_sends_shift_enter_does_not_and_mentions_complete(page: Page):
    known = [{"name": "@problems", "about": "Errors"}, {"name": "/undo", "about": "Undo"}]
    show(page, kind="status", status=status(completions=known, attached=["a.py:1-2"]))
    field = page.get_by_label("Message")
    field.press_sequentially("Fix @pr")
    field.press("Tab")
    field.press_sequentially("now")
    field.press("Shift+Enter")
    field.press_sequentially("please")
    field.press("Enter")
    assert page.evaluate("posted.at(-1)") == {"kind": "prompt", "text": "Fix @problems now\nplease"}
    page.get_by_role("button", name="a.py:1-2").click()
    assert page.evaluate("posted.at(-1)") == {"kind": "detach", "index": 0}
    assert page.get_by_role("button", name="Stop").count() == 0
