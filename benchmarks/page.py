"""Measure the page of the Agent Manager in Chromium: `python benchmarks/page.py`.

A hundred sessions are listed and ten of them stream, as in `manager.py`. The page shows one of the
ten. Every time it changes, it compares the newest timestamp in the conversation with the clock.
Processor time is that of the page's own process. Needs the page built and a browser.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from manager import MOST_DELAY, PATIENCE, SECONDS, Project, model_process, start_streams

MOST_CPU = 0.25
WATCH = """(offset) => {
  window.delays = [];
  let last = "";
  const look = () => {
    const words = document.querySelector("[role=log]").textContent;
    const found = words.slice(words.lastIndexOf("@") + 1).match(/^\\d{10,}(?=\\s|$)/);
    if (found && found[0] !== last) {
      last = found[0];
      window.delays.push(performance.timeOrigin + performance.now() - offset - Number(last) / 1e6);
    }
  };
  new MutationObserver(look).observe(document.body, {
    subtree: true, childList: true, characterData: true,
  });
}"""


def cpu_of_pages(browser: Browser) -> float:
    """Processor seconds that the renderers have used."""
    found: dict[str, Any] = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    return sum(each["cpuTime"] for each in found["processInfo"] if each["type"] == "renderer")


def measured(browser: Browser, page: Page) -> tuple[list[float], float]:
    """Delays in seconds, and the share of a core."""
    page.evaluate(WATCH, (time.time_ns() - time.monotonic_ns()) / 1e6)
    page.wait_for_timeout(2000)
    page.evaluate("window.delays.length = 0")
    cpu, began = cpu_of_pages(browser), time.monotonic()
    page.wait_for_timeout(SECONDS * 1000)
    share = (cpu_of_pages(browser) - cpu) / (time.monotonic() - began)
    return [each / 1000 for each in page.evaluate("window.delays")], share


def main() -> None:
    from run import table

    from rookery.browser.browser_action import find_browser

    with (
        tempfile.TemporaryDirectory() as folder,
        model_process() as model,
        sync_playwright() as driver,
    ):
        project = Project(Path(folder), model)
        with project.managed() as manager:
            program = find_browser("", project.environ["PATH"])
            args = ["--disable-gpu", "--no-proxy-server", "--disable-dev-shm-usage"]
            browser = driver.chromium.launch(
                executable_path=program, args=args, chromium_sandbox=False
            )
            page = browser.new_page()
            page.goto(manager._launch_url)
            page.wait_for_selector(".side-list a", timeout=PATIENCE * 1000)
            token = page.evaluate("localStorage.getItem('rookery.token')")
            manager._token = token
            streams = start_streams(manager)
            try:
                page.evaluate(f"location.hash = '#/session/{streams[0]}'")
                page.wait_for_selector("[role=log]", timeout=PATIENCE * 1000)
                delays, share = measured(browser, page)
            finally:
                manager.do("stop_all")
                browser.close()
    cut = quantiles(delays, n=100)
    verdict = "ok" if cut[94] < MOST_DELAY else "over"
    rows = [
        ["word to page, p50", f"{cut[49] * 1000:.0f} ms", "", ""],
        ["word to page, p95", f"{cut[94] * 1000:.0f} ms", f"{MOST_DELAY * 1000:.0f} ms", verdict],
        [
            "the page's share of a core",
            f"{share:.0%}",
            f"{MOST_CPU:.0%}",
            "ok" if share < MOST_CPU else "over",
        ],
    ]
    print(f"{len(delays)} paints in {SECONDS:.0f} seconds")
    print(table([("what", "page", "wanted", ""), *rows]))


if __name__ == "__main__":
    main()
