"""The page's own checks: its types, its unit tests, and that it was made from these sources."""

import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "web"
SECONDS = 240

if not shutil.which("npm"):
    pytest.skip("npm, which makes the page, is not here", allow_module_level=True)
if not (WEB / "node_modules").exists():
    pytest.skip("the page's packages are not installed: make web", allow_module_level=True)


@pytest.mark.parametrize("script", ["check", "test"])
def test_the_sources_of_the_page_hold(script: str):
    done = subprocess.run(
        ["npm", "run", "--silent", script],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
