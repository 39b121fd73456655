"""Tokens of MCP servers, in a keyring and in a file."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoBackend

from rookery.errors import SettingsError
from rookery.storage.token_store import TokenStore
from support.file_keyring import FILE, MOOD, FileKeyring

TOKEN = "t0ken-" + "x" * 5000


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(NoBackend())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def in_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FILE, str(tmp_path / "keyring"))
    keyring.set_keyring(FileKeyring())
    return tmp_path / "keyring"


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "tokens" / "tokens.json")


def test_without_a_keyring_tokens_are_in_a_private_file(store: TokenStore, tmp_path: Path):
    file = tmp_path / "tokens" / "tokens.json"
    assert store.get("a") == ""
    assert store.put("a", TOKEN) == str(file)
    store.put("b", "other")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TokenStore(file).get("a") == TOKEN
    assert store.forget("a")
    assert not store.forget("a")
    assert json.loads(file.read_bytes()) == {"b": "other"}


def test_a_keyring_is_preferred_and_read_again_each_time(
    store: TokenStore, tmp_path: Path, in_keyring: Path
):
    assert "a file of the test's" in store.put("a", TOKEN)
    assert TOKEN in in_keyring.read_text()
    assert not (tmp_path / "tokens" / "tokens.json").exists()
    assert store.get("a") == TOKEN
    kept = json.loads(in_keyring.read_text())
    in_keyring.write_text(json.dumps({name: "fresh" for name in kept}))
    assert store.get("a") == "fresh"
    assert store.forget("a")
    assert store.get("a") == ""


def test_tokens_move_to_the_keyring_once_there_is_one(store: TokenStore, in_keyring: Path):
    backend = keyring.get_keyring()
    keyring.set_keyring(NoBackend())
    store.put("a", "old")
    keyring.set_keyring(backend)
    store.put("a", "new")
    assert store.get("a") == "new"
    assert store.forget("a")
    assert store.get("a") == ""


@pytest.mark.usefixtures("in_keyring")
def test_a_locked_keyring_is_reported_without_the_token(
    store: TokenStore, monkeypatch: pytest.MonkeyPatch
):
    store.put("a", TOKEN)
    monkeypatch.setenv(MOOD, "locked")
    for use in (lambda: store.get("a"), lambda: store.forget("a")):
        with pytest.raises(SettingsError, match="keyring") as refused:
            use()
        assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("text", ['{"a": "t0ken', '["t0ken"]', '{"a": {"b": "t0ken"}}'])
def test_a_damaged_file_is_reported_without_its_tokens(
    store: TokenStore, tmp_path: Path, text: str
):
    store.put("b", "x")
    (tmp_path / "tokens" / "tokens.json").write_text(text)
    with pytest.raises(SettingsError, match="is damaged") as refused:
        store.get("a")
    assert "t0ken" not in str(refused.value)


def test_a_file_that_others_can_read_is_refused(store: TokenStore, tmp_path: Path):
    store.put("a", TOKEN)
    (tmp_path / "tokens" / "tokens.json").chmod(0o644)
    with pytest.raises(SettingsError, match="Other users can read"):
        store.get("a")
