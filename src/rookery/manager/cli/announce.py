"""What `rookery manager` tells: a link on standard output, and everything else beside it."""

import json
import os
import sys
from typing import TYPE_CHECKING

import anyio.to_thread

from rookery.core.text.terminal_text import harmless

if TYPE_CHECKING:
    from rookery.manager.web.launch_socket import Links


def tell(sentence: str) -> None:
    print(harmless(sentence), file=sys.stderr, flush=True)


def announce(links: "Links", *, as_json: bool) -> None:
    if as_json:
        said = {"url": links.url, "launch_url": links.launch_url, "pid": links.pid}
        pairing = {"pairing_url": links.pairing_url} if links.pairing_url else {}
        print(json.dumps({**said, **pairing}), flush=True)
    else:
        print(f"Open this within a minute; it works once: {links.launch_url}", flush=True)


def show_pairing(link: str) -> None:
    from rookery.manager.web.qr_code import qr_code

    if sys.stderr.isatty():
        print(qr_code(link), file=sys.stderr, end="", flush=True)
    tell(f"To pair a device within five minutes, scan this or open {link}")


async def open_browser(link: str) -> None:
    """Only where there is a screen: a browser in this terminal would be in the way."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not has_screen and sys.platform != "darwin":
        tell("There is no screen here to open a browser on.")
        return
    import webbrowser

    if not await anyio.to_thread.run_sync(webbrowser.open, link, abandon_on_cancel=True):
        tell("No browser could be opened. Open the link yourself.")
