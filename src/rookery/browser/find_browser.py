"""The Chromium or Chrome that is installed. None is ever downloaded."""

import os
import shutil
from importlib.util import find_spec

from rookery.errors import ToolError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

NO_EXTRA = (
    "The browser tool needs the package playwright. Ask the user to run: pip install playwright"
)
NO_BROWSER = (
    "No Chromium or Chrome found on this machine. Ask the user to install one, for "
    "example Debian's package chromium, or to set browser.path."
)


def find_browser(chosen: str, search: str) -> str:
    """The program by its whole path: the `chosen` one, or one of those in the folders of
    `search`. Raises `ToolError` if the extra or the browser is missing."""
    if find_spec("playwright") is None:
        raise ToolError(NO_EXTRA)
    if chosen:
        return _insist(os.path.expanduser(chosen))
    folders = [folder for folder in search.split(os.pathsep) if os.path.isabs(folder)]
    found = (shutil.which(name, path=os.pathsep.join(folders)) for name in PROGRAMS)
    program = next(filter(None, found), None) or next(filter(os.path.exists, _MAC), None)
    if program is None:
        raise ToolError(NO_BROWSER)
    return program


def _insist(program: str) -> str:
    if os.path.isabs(program) and os.path.isfile(program) and os.access(program, os.X_OK):
        return program
    raise ToolError(
        f"The setting browser.path is {program}, which is not an absolute path to a "
        "program. Ask the user to correct or remove it."
    )
