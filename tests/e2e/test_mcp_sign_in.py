"""`rookery mcp login` and `logout` with a real authorization server and a browser."""

import json
import sys
from pathlib import Path

import pytest

from support.guarded_mcp_server import guarded_server
from support.terminal_session import Installed


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, str]:
    """A graphical browser whose user agrees at once."""
    program = tmp_path / "browser"
    program.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1])\n"
    )
    program.chmod(0o700)
    return {"DISPLAY": ":0", "BROWSER": f"{program} %s"}


def test_login_test_and_logout(rookery: Installed, browser: dict[str, str]):
    no_keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    with guarded_server() as guarded:
        assert rookery.run("mcp", "add", "far", "--url", guarded.url).returncode == 0
        before = rookery.run("mcp", "test", "far", **no_keyring)
        assert before.returncode == 1
        assert "It wants you to sign in. Run: rookery mcp login far" in before.stderr
        signed = rookery.run("mcp", "login", "far", **browser, **no_keyring)
        file = rookery.home / "config" / "mcp-tokens" / "tokens.json"
        assert signed.stdout == f"Signed in to far. The tokens are in {file}.\n", signed.stderr
        assert "far uses the sign-in of 127.0.0.1." in signed.stderr
        assert "whoami" in rookery.run("mcp", "test", "far", **no_keyring).stdout
        assert "Signed out of far." in rookery.run("mcp", "logout", "far", **no_keyring).stdout
        assert "not signed in" in rookery.run("mcp", "logout", "far", **no_keyring).stdout
        assert rookery.run("mcp", "test", "far", **no_keyring).returncode == 1
    assert json.loads(file.read_bytes()) == {}


def test_a_server_without_a_sign_in_says_so(rookery: Installed):
    rookery.run("mcp", "add", "near", "--", "true")
    refused = rookery.run("mcp", "login", "near")
    assert refused.returncode == 2
    assert "near has no sign-in" in refused.stderr
