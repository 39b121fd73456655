"""`rookery auth`: keys of providers.

Keys are in the system keyring or in a file only the user can read.
"""

import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from textwrap import fill

import anyio
import click

from rookery import NAME
from rookery.cli.command_line import format_option
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.providers.registry import (
    DEFAULT_MODELS,
    KEY_VARIABLES,
    NAMES,
    OTHER_KEY_VARIABLES,
    OTHER_NAMES,
    SEARCH_KEYS,
    no_such_provider,
)
from rookery.storage.keys import (
    NoKeyring,
    forget_in_keyring,
    forget_key,
    keep_in_keyring,
    keyring_here,
    save_key,
    source_of_key,
    usable_key,
)
from rookery.storage.settings_files import find_settings

_VARIABLES = {**KEY_VARIABLES, **SEARCH_KEYS}
SIGN_IN = "openrouter"
"""The provider whose key a sign-in returns."""
KEY_PAGES = {
    "openrouter": "https://openrouter.ai/settings/keys",
    "anthropic": "https://console.anthropic.com/settings/keys",
    "openai": "https://platform.openai.com/api-keys",
    "gemini": "https://aistudio.google.com/apikey",
}
"""Where a user gets a key."""
COMMON = tuple(KEY_PAGES)
"""Providers that are offered by number."""
SHORTEST_KEY = 25
"""Characters; the names of providers are shorter."""


def key_variable(provider: str, environ: Mapping[str, str]) -> str:
    usual, other = _VARIABLES[provider], OTHER_KEY_VARIABLES.get(provider, "")
    return other if environ.get(other) and not environ.get(usual) else usual


def source_of(provider: str, environ: Mapping[str, str], keys_file: Path) -> str | None:
    """Where a provider's key comes from; None if it has none."""
    variable = key_variable(provider, environ)
    return source_of_key(provider, environ=environ, variable=variable, keys_file=keys_file)


@click.command()
@click.argument("words", nargs=-1, metavar="PROVIDER | status [PROVIDER] | logout PROVIDER")
@click.option(
    "--file", "in_file", is_flag=True, help="Store the key in a file, not in the keyring."
)
@click.option("-v", "--verbose", is_flag=True, help="With status: print more.")
@format_option
def auth(words: Sequence[str], in_file: bool, verbose: bool, form: str) -> int:
    """Store a provider's key, show which keys are set, or remove one.

    Asks for the key without showing it, or reads it from a pipe. With openrouter you can sign in
    with a browser instead. The key is stored in the system's keyring or, without one, in a file
    that only you can read. The exit code of status is 0 if a key is set, else 1.
    """
    keys_file = find_places(os.environ).keys_file
    match words:
        case ["status" | "list" | "ls"] | ["status", _]:
            return _status(_chosen(words[1:]), keys_file, verbose, form)
        case ["logout", provider]:
            return _log_out(known_provider(provider), keys_file)
        case ["logout"]:
            raise SettingsError(_which_to_log_out(keys_file))
        case ["login", provider] | [provider] if provider not in ("login", "logout"):
            return _log_in(known_provider(provider), keys_file, in_file=in_file)
        case [] | ["login"] if sys.stdin.isatty() and sys.stdout.isatty():
            return _log_in(_asked_provider(keys_file), keys_file, in_file=in_file)
        case _:
            raise SettingsError(
                f"Use {NAME} auth PROVIDER, {NAME} auth status or {NAME} auth logout "
                f"PROVIDER. Providers: {', '.join(_VARIABLES)}."
            )


def known_provider(given: str, known: Collection[str] = tuple(_VARIABLES)) -> str:
    """The provider with this name, in any case. Raises `SettingsError` if it has no key."""
    provider = OTHER_NAMES.get(given.lower(), given.lower())
    if not provider:
        raise SettingsError("Type a number or a name.")
    if len(provider) >= SHORTEST_KEY:
        raise SettingsError(
            "This looks like a key. Name its provider first. The next prompt asks for the key and "
            "does not show it."
        )
    if provider in NAMES and provider not in known:
        raise SettingsError(
            f"{provider} needs no key. Use it with: {NAME} --provider {provider} -m MODEL"
        )
    if provider not in known:
        raise no_such_provider(given, tuple(known))
    return provider


def _asked_provider(keys_file: Path) -> str:
    for number, provider in enumerate(COMMON, 1):
        source = source_of(provider, os.environ, keys_file)
        print(f"{number:>3}  {provider:<12}{f'key {source}' if source else ''}".rstrip())
    others = [provider for provider in KEY_VARIABLES if provider not in COMMON]
    print(fill(f"Others by name: {', '.join(others)}.", 80))
    while True:
        typed = input("Which provider? [number or name, Ctrl-D exits] ").strip()
        try:
            return numbered(typed, COMMON) or known_provider(typed)
        except SettingsError as error:
            print(fill(str(error), 80, break_on_hyphens=False))


def numbered(typed: str, offered: Sequence[str]) -> str:
    """The entry with the number that was typed; empty if it is none."""
    if not typed.isdecimal():
        return ""
    if not 1 <= int(typed) <= len(offered):
        raise SettingsError(f"Give a number from 1 to {len(offered)}.")
    return offered[int(typed) - 1]


def _chosen(given: Sequence[str]) -> Sequence[str]:
    return [known_provider(one) for one in given] or list(_VARIABLES)


def ask_and_store_key(provider: str, keys_file: Path, *, in_file: bool = False) -> None:
    """Ask for a key without showing it, or sign in, and store the key. From a pipe it is read."""
    key = _typed_key(provider) if sys.stdin.isatty() else sys.stdin.readline()
    if not key.strip():
        raise SettingsError("No key was given, so nothing was stored.")
    stored = _store_key(provider, usable_key(key), keys_file, in_file=in_file)
    print(fill(stored, 80, break_on_hyphens=False, break_long_words=False))


def _log_in(provider: str, keys_file: Path, *, in_file: bool) -> int:
    ask_and_store_key(provider, keys_file, in_file=in_file)
    variable = key_variable(provider, os.environ)
    if os.environ.get(variable):
        print(f"note: {variable} is also set and is used instead.")
    model = "" if provider in DEFAULT_MODELS else " -m MODEL"
    if provider in SEARCH_KEYS:
        print(f"Use it with: {NAME} config set web.search {provider}")
    else:
        print(f'Use it with: {NAME} --provider {provider}{model} "your task"')
    return 0


def _typed_key(provider: str) -> str:
    from getpass import getpass

    if page := KEY_PAGES.get(provider):
        print(f"Get a key at {page}")
    if provider != SIGN_IN:
        return getpass(f"Key for {provider} (not shown): ")
    key = getpass(f"Key for {provider} (not shown), or Enter to sign in with a browser: ")
    return key if key.strip() else _signed_in()


def _signed_in() -> str:
    from rookery.providers.sign_in import BASE_URL, sign_in

    places = find_places(os.environ)
    settings = find_settings(places.settings_file, None, os.environ, {}).settings
    own = settings.base_url if settings.provider == SIGN_IN else None
    base_url = (own or BASE_URL).rstrip("/")
    return anyio.run(partial(sign_in, base_url, print, typed=sys.stdin.fileno()))


def _store_key(provider: str, key: str, keys_file: Path, *, in_file: bool) -> str:
    """Store a key in one place only and return its name."""
    if not in_file:
        try:
            name = keep_in_keyring(keys_file, provider, key)
        except NoKeyring as error:
            save_key(keys_file, provider, key)
            return f"{_in_file(provider, keys_file)} (Not in a keyring: {error}.)"
        forget_key(keys_file, provider)
        return f"The key for {provider} is stored in the system keyring ({name})."
    save_key(keys_file, provider, key)
    try:
        forget_in_keyring(keys_file, provider)
    except NoKeyring as error:
        raise SettingsError(
            f"The key is in {keys_file}, but one in the system keyring comes first "
            f"and cannot be removed: {error}."
        ) from error
    return _in_file(provider, keys_file)


def _in_file(provider: str, keys_file: Path) -> str:
    return f"The key for {provider} is stored in {keys_file}, which only you can read."


def remove_key(provider: str, keys_file: Path) -> bool:
    """Remove a stored key. Whether there was one."""
    try:
        return any([forget_in_keyring(keys_file, provider), forget_key(keys_file, provider)])
    except NoKeyring as error:
        raise SettingsError(
            f"The key for {provider} is in the system keyring and cannot be removed: "
            f"{error}. Unlock the keyring, then try again."
        ) from error


def _log_out(provider: str, keys_file: Path) -> int:
    gone = remove_key(provider, keys_file)
    print(f"The key for {provider} was removed." if gone else f"No key for {provider} is stored.")
    variable = key_variable(provider, os.environ)
    if os.environ.get(variable):
        print(f"note: {variable} is still set and is used.")
    return 0


def _which_to_log_out(keys_file: Path) -> str:
    found = [name for name in _VARIABLES if source_of(name, os.environ, keys_file)]
    named = ", ".join(found) or "none"
    return f"Name the provider: {NAME} auth logout PROVIDER. With a key: {named}."


def _status(providers: Sequence[str], keys_file: Path, verbose: bool, form: str) -> int:
    sources = {name: source_of(name, os.environ, keys_file) for name in providers}
    found = [name for name, source in sources.items() if source]
    if form == "json":
        print(json.dumps({"authenticated": bool(found), "keys": sources}))
        return 0 if found else 1
    for name in sources if verbose or len(providers) == 1 else found:
        print(f"{name}\t{sources[name] or f'no key ({key_variable(name, os.environ)})'}")
    if not found and len(providers) > 1:
        print(f"No key. Store one with: {NAME} auth PROVIDER")
    if verbose:
        print(_places(keys_file))
    return 0 if found else 1


def _places(keys_file: Path) -> str:
    try:
        changed = datetime.fromtimestamp(keys_file.stat().st_mtime)
        kept = f"changed {changed:%Y-%m-%d %H:%M}"
    except FileNotFoundError:
        kept = "there is none"
    try:
        keyring = keyring_here()
    except NoKeyring as error:
        keyring = f"not used: {error}"
    return f"\nFile: {keys_file} ({kept})\nKeyring: {keyring}"
