"""Fixtures for a home folder and a workspace."""

from pathlib import Path

import pytest

from rookery.providers.registry import KEY_VARIABLES, OTHER_KEY_VARIABLES


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate home, a workspace as current folder, and no keys."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HOME", str(tmp_path / "decoy"))
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path / "home"))
    for variable in (*KEY_VARIABLES.values(), *OTHER_KEY_VARIABLES.values()):
        monkeypatch.delenv(variable, raising=False)
    # where nothing listens, so that no test asks a real provider
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    return tmp_path / "home"
