"""A home and a workspace of the test's own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, a workspace as current folder, and no keys."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HOME", str(tmp_path / "decoy"))
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path / "home"))
    for provider in ("ANTHROPIC", "OPENAI", "OPENROUTER"):
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)
    return tmp_path / "home"
