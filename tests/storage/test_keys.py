import copy
import json
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import msgspec
import pytest

from rookery.errors import SettingsError
from rookery.storage.keys import Key, all_keys, find_key, save_key

SECRET = "sk-very-secret-0123456789"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys.toml"


def keep(file: Path, text: str | bytes, mode: int = 0o600) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)


def find(file: Path, flag: str | None = None, **environ: str) -> Key | None:
    return find_key(
        "anthropic", flag=flag, environ=environ, variable="ANTHROPIC_API_KEY", keys_file=file
    )


@pytest.mark.parametrize(
    ("flag", "environ", "kept", "key", "source"),
    [
        ("f", {"ANTHROPIC_API_KEY": "e"}, "k", "f", "--api-key"),
        (None, {"ANTHROPIC_API_KEY": "e"}, "k", "e", "ANTHROPIC_API_KEY"),
        (None, {"ANTHROPIC_API_KEY": ""}, "k", "k", "FILE"),
        ("", {"OPENAI_API_KEY": "e"}, "k", "k", "FILE"),
        (None, {"ANTHROPIC_API_KEY": " e\n"}, None, "e", "ANTHROPIC_API_KEY"),
    ],
)
def test_the_first_place_that_has_a_key_gives_it(
    file: Path, flag: str | None, environ: dict[str, str], kept: str | None, key: str, source: str
):
    if kept:
        keep(file, f'openai = "other"\nanthropic = "{kept}"\n')
    found = find(file, flag, **environ)
    assert found is not None
    assert found.reveal() == key
    assert found.source == source.replace("FILE", str(file))


def test_no_key_anywhere_is_none(file: Path):
    assert find(file) is None
    keep(file, 'openai = "other"')
    assert find(file) is None
    assert find_key("ollama", flag=None, environ={"": "x"}, variable=None, keys_file=file) is None


def test_looking_for_a_keyring_starts_no_programs():
    """`keyring` loads the backends of all systems; that of macOS looks for libraries with gcc."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK_FOR_A_KEYRING], capture_output=True, text=True, check=True
    )
    assert done.stdout == "asked\n"


LOOK_FOR_A_KEYRING = """
import sys
sys.addaudithook(lambda event, args: event == "subprocess.Popen" and print("started", args[1]))
from rookery.storage.keys import NoKeyring, keyring_here
try:
    keyring_here()
except NoKeyring:
    pass
assert "keyring.backends.SecretService" in sys.modules
print("asked")
"""


def test_a_key_is_never_printed():
    key = Key(SECRET, source="ANTHROPIC_API_KEY")
    assert repr(key) == 'Key(source="ANTHROPIC_API_KEY")'
    shown = [
        str(key),
        f"{key}",
        f"{key!r:>80}",
        "%s %r" % (key, key),  # noqa: UP031
        str([key]),
        str({"k": key}),
        str(hasattr(key, "__dict__")),
    ]
    assert SECRET not in "".join(shown)
    for write in (json.dumps, pickle.dumps, copy.copy, msgspec.json.encode, msgspec.to_builtins):
        with pytest.raises(TypeError) as caught:
            write(key)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_key_file_open_to_others_is_refused_with_the_fix(file: Path, mode: int):
    keep(file, f'anthropic = "{SECRET}"', mode)
    with pytest.raises(SettingsError) as caught:
        find(file)
    assert str(caught.value) == f"Other users can read {file}; run: chmod 600 {file}"
    with pytest.raises(SettingsError):
        save_key(file, "anthropic", "new")
    subprocess.run(["sh", "-c", str(caught.value).partition("run: ")[2]], check=True)
    assert find(file) is not None


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_is_read(file: Path, mode: int):
    keep(file, f'anthropic = "{SECRET}"', mode)
    assert find(file) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(file: Path):
    keep(file, f'anthropic = "{SECRET}"', 0o644)
    os.chown(file, 12345, 12345)
    with pytest.raises(SettingsError, match="belongs to another user"):
        find(file)


def test_a_pipe_or_folder_is_refused_without_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(SettingsError, match=f"{name} is not a regular file; move it away."):
            find(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"anthropic = {SECRET}", "; see line 1, column 13."),
        (f"[{SECRET}]\n[{SECRET}]", "; see line 2, column 27."),
        (f'anthropic = "{SECRET}', "; it ends too early."),
        (f'anthropic = "{SECRET}'.encode() + b'\xff"', "; it is not UTF-8 text."),
        (f'x = "{SECRET}"\ny = ' + "[" * 990, "; it is nested too deeply."),
        (f'x = "{SECRET}"\n' + "#" * 1001, " is too large for a file of keys; shorten it."),
        (f'x = "{SECRET}"\n' + "#\n" * 40_000, " is too large for a file of keys; shorten it."),
        (f'anthropic = ["{SECRET}"]', ": anthropic must be a key in quotes."),
        (f'["{SECRET}!"]', ": one of its names must be a key in quotes."),
        (
            f'anthropic = "{SECRET} {SECRET}"',
            " is empty or has characters that a key cannot have; copy it again.",
        ),
        (
            f'anthropic = "{SECRET}\\n{SECRET}"',
            " is empty or has characters that a key cannot have; copy it again.",
        ),
        (
            f'anthropic = "{SECRET}é"',
            " is empty or has characters that a key cannot have; copy it again.",
        ),
    ],
)
def test_no_error_message_contains_a_key(file: Path, text: str | bytes, complaint: str):
    keep(file, text)
    with pytest.raises(SettingsError) as caught:
        find(file)
    assert str(file) in str(caught.value)
    assert str(caught.value).endswith(complaint)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("flag", ["  ", "a b", "a\nb", "schlüssel", "\x1b"])
def test_a_malformed_key_is_refused(file: Path, flag: str):
    with pytest.raises(SettingsError) as caught:
        find(file, flag)
    assert str(caught.value) == (
        "The key from --api-key is empty or has characters that a key cannot have; copy it again."
    )


def test_a_saved_key_is_found_and_the_others_stay(file: Path):
    save_key(file, "openai", "first")
    save_key(file, "anthropic", f" {SECRET}\n")
    save_key(file, "openai", 'se"cond\\')
    found = find(file)
    assert found is not None
    assert found.reveal() == SECRET
    other = find_key("openai", flag=None, environ={}, variable=None, keys_file=file)
    assert other is not None
    assert other.reveal() == 'se"cond\\'
    assert [path.name for path in file.parent.iterdir()] == ["keys.toml"]


def test_a_malformed_name_or_key_is_not_saved(file: Path):
    for provider in ("", "a b", "a.b", "x=", "[x]"):
        with pytest.raises(SettingsError, match="A provider's name has only"):
            save_key(file, provider, SECRET)
    with pytest.raises(SettingsError, match="The key that was given is empty or has"):
        save_key(file, "anthropic", "two\nlines")
    assert not file.exists()


def test_saved_keys_are_private_at_once_with_any_umask(file: Path):
    program = f"""
import os, sys
from pathlib import Path
def watch(event, args):
    if event == "open" and isinstance(args[0], Path | str) and "keys.toml" in str(args[0]):
        if args[2] & os.O_CREAT:
            seen.append(bool(args[2] & os.O_EXCL))
    if event == "os.rename":
        seen.append(oct(os.stat(args[0]).st_mode & 0o777))
from rookery.storage.keys import save_key
sys.addaudithook(watch)
for umask in (0o000, 0o022, 0o077):
    os.umask(umask)
    seen = []
    save_key(Path({str(file)!r}), "anthropic", "k")
    assert seen == [True, "0o600"], seen
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": "src"})
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_failed_save_leaves_the_old_key_and_nothing_else(file: Path):
    save_key(file, "anthropic", "old")
    program = f"""
import resource, signal
from pathlib import Path
from rookery.errors import SettingsError
from rookery.storage.keys import save_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    save_key(Path({str(file)!r}), "anthropic", "{SECRET}")
except SettingsError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": "src"},
    )
    assert done.stdout == f"{file} could not be written: File too large.\n"
    found = find(file)
    assert found is not None
    assert found.reveal() == "old"
    assert [path.name for path in file.parent.iterdir()] == ["keys.toml"]


def test_all_keys_of_environment_and_file_are_listed(file: Path):
    keep(file, f'openai = "{SECRET}-o"\nother = "{SECRET}-x"\n')
    environ = {"ANTHROPIC_API_KEY": f" {SECRET}-a\n", "HOME": "/"}
    known = list(all_keys(environ, ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"], file))
    assert known == [f"{SECRET}-a", f"{SECRET}-o", f"{SECRET}-x"]


def test_a_refused_key_file_gives_no_keys_and_no_error(file: Path):
    keep(file, f'openai = "{SECRET}"\n', mode=0o644)
    assert list(all_keys({}, [], file)) == []
