"""`rookery auth PROVIDER`: keep a key in a file that only its owner can read."""

import os
import sys

import click

from rookery.errors import SettingsError
from rookery.providers import KEY_VARIABLES
from rookery.storage.keys import save_key
from rookery.storage.places import find_places


@click.command()
@click.argument("provider")
def command(provider: str) -> int:
    """Store the key of a provider. It is asked for without being shown, or read from a pipe."""
    if provider not in KEY_VARIABLES:
        raise SettingsError(f"{provider!r} takes no key. These do: {', '.join(KEY_VARIABLES)}.")
    if sys.stdin.isatty():
        from getpass import getpass

        key = getpass(f"Key for {provider}: ")
    else:
        key = sys.stdin.readline()
    if not key.strip():
        raise SettingsError("No key was given, so nothing was stored.")
    file = find_places(os.environ).keys_file
    save_key(file, provider, key.strip())
    print(f"The key for {provider} is kept in {file}, which only you can read.")
    return 0
