"""Run as a script: the command with a test keyring, which is the first argument.

`find-key FILE` instead of a command looks up a key as a run does. It prints the key's source, and
whether the package `keyring` was imported.
"""

import os
import sys
from pathlib import Path

from rookery.cli.main import run
from rookery.errors import RookeryError
from rookery.storage.keys import find_key


def look_up(file: str) -> int:
    try:
        key = find_key(
            "anthropic",
            flag=None,
            environ=os.environ,
            variable="ANTHROPIC_API_KEY",
            keys_file=Path(file),
        )
        print(key and key.source, key and len(key.reveal()), "keyring" in sys.modules)
    except RookeryError as error:
        print(error)
    return 0


if __name__ == "__main__":
    backend, *words = sys.argv[1:]
    os.environ["PYTHON_KEYRING_BACKEND"] = f"support.file_keyring.{backend}"
    sys.exit(look_up(words[1]) if words[0] == "find-key" else run(words))
