"""`rookery models`: what providers and local servers offer, and how to describe a model."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import click
from msgspec import to_builtins
from msgspec.structs import replace

from rookery import NAME
from rookery.app.model_choice import (
    ModelChoice,
    NoModelNamed,
    choice_without_flags,
    choose_model,
    facts_about,
    own_address,
)
from rookery.cli.command_line import format_option
from rookery.core.settings import Settings
from rookery.core.settings_reference import checked_text, spelled
from rookery.core.text.characters import whole_values
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import SettingsError, StorageError
from rookery.platform.user_folders import Places, find_places
from rookery.providers.catalogue import known_models
from rookery.providers.cli.auth_command import source_of
from rookery.providers.cli.models_table import as_json, as_text
from rookery.providers.listing_shapes import ListedModel
from rookery.providers.listings import (
    LOCAL_SECONDS,
    SECONDS,
    ListRequest,
    ModelOffer,
    ask_for_lists,
    local_servers,
)
from rookery.providers.model_cache import ModelList, address_of, keep_lists, read_lists
from rookery.providers.model_files import found_in_words, local_files
from rookery.providers.registry import (
    BASE_URLS,
    KEY_VARIABLES,
    LOCAL,
    OTHER_NAMES,
    no_such_provider,
)
from rookery.storage.settings_edits import change_settings, with_value
from rookery.storage.settings_files import find_settings

PROGRESS_AFTER = 1.0
FILES = "local"
"""The provider that runs model files."""
_SAME_LIST = {"responses": "openai"}
"""Providers with the same models and key as another one."""


@click.command()
@click.argument("words", nargs=-1, metavar="[PROVIDER] | describe MODEL NAME=VALUE...")
@click.option("--refresh", is_flag=True, help="Fetch the lists again.")
@click.option("--probe", is_flag=True, help="Test what one model can do.")
@click.option("-m", "--model", help="With --probe: the model to test.")
@click.option("--base-url", help="With PROVIDER: the address of its server.")
@format_option
def command(
    words: Sequence[str],
    refresh: bool,
    probe: bool,
    model: str | None,
    base_url: str | None,
    form: str,
) -> int:
    """List the models you can use: of providers with a key, of local servers, and in model files.

    The table shows context window, dollars per million tokens, size and abilities, and marks the
    default model. Lists of providers are stored; --refresh fetches them again. Local servers are
    asked every time. `describe` stores facts about a model in your settings.
    """
    words = words[1:] if words[:1] == ("list",) else words
    if probe and len(words) <= 1:
        from rookery.providers.cli.probe_command import probe_model

        return probe_model(words[0] if words else "", model, base_url, form)
    if model:
        raise SettingsError("--model needs --probe.")
    if base_url and (len(words) != 1 or words[0] == "describe"):
        raise SettingsError(
            f"--base-url needs a provider, for example: {NAME} models vllm --base-url {base_url}"
        )
    match words:
        case ["describe", described, *facts]:
            return _describe(described, facts)
        case ["describe"]:
            return _describe("my-model", ())
        case [] | [_]:
            return _list(words[0] if words else "", refresh, form, base_url)
        case _:
            raise SettingsError(
                f"Use {NAME} models, {NAME} models PROVIDER or {NAME} models describe MODEL "
                "NAME=VALUE."
            )


def models_by_key(environ: Mapping[str, str], keys_file: Path) -> dict[str, list[str]]:
    """The known models of each provider with a key. Does not ask the keyring."""
    return {name: list(known_models(name)) for name in _with_key(environ, keys_file)}


def described_models(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Facts about each available model, by id. Only local servers are asked."""
    places = find_places(environ)
    settings = find_settings(places.settings_file, None, environ, {}).settings
    offers = models_by_key(environ, places.keys_file)
    offers |= anyio.run(local_servers)
    return {
        model: to_builtins(facts_about(settings, provider, model, None))
        for provider, models in offers.items()
        for model in models
    }


def _describe(model: str, facts: Sequence[str]) -> int:
    pairs = [fact.partition("=") for fact in facts]
    if not pairs or not all(name and equals for name, equals, _ in pairs):
        raise SettingsError(
            f"Give facts as NAME=VALUE, for example: {NAME} models describe {model} "
            "window=65536 images=true"
        )
    keys = {("models", model, name): text for name, _, text in pairs}
    values = {key: checked_text(key, text, name=spelled(key)) for key, text in keys.items()}
    file = find_places(os.environ).settings_file

    def change(text: str) -> str:
        for key, value in values.items():
            text = with_value(text, key, value, file)
        return text

    change_settings(file, change, shared=False)
    stored = ", ".join(f"{key[-1]} = {json.dumps(value)}" for key, value in values.items())
    print(harmless_line(f"{model}: {stored} (in {file})"))
    return 0


def _list(wanted: str, refresh: bool, form: str, base_url: str | None) -> int:
    places = find_places(os.environ)
    wanted = OTHER_NAMES.get(wanted, wanted)
    flags = {"provider": wanted, "base_url": base_url} if base_url else {}
    settings = find_settings(places.settings_file, None, os.environ, flags).settings
    default, trouble = None, ""
    try:
        default = choice_without_flags(settings, os.environ, places.keys_file)
    except NoModelNamed:
        trouble = f"No default model. Set one with: {NAME} config set model NAME"
    except SettingsError as error:
        trouble = str(error)
    if wanted and wanted not in (*BASE_URLS, FILES):
        raise no_such_provider(wanted, (*BASE_URLS, FILES))
    offers = anyio.run(_offers, places, settings, default, wanted, refresh)
    if form == "json":
        print(json.dumps(whole_values(as_json(offers, default, settings))))
    else:
        address = f" --base-url {base_url}" if base_url else ""
        print(harmless(as_text(offers, default, settings, trouble, only=wanted, address=address)))
    return int(bool(wanted and offers and offers[0].failure))


async def _offers(
    places: Places, settings: Settings, default: ModelChoice | None, wanted: str, refresh: bool
) -> list[ModelOffer]:
    """The models of one provider, or of all with a key and all on this machine."""
    if wanted == FILES:
        return [_files()]
    asked = [wanted] if wanted else _all_providers(places, default)
    stored = read_lists(places.model_lists)
    requests: dict[str, ListRequest] = {}
    offers: dict[str, ModelOffer] = {}
    for provider in asked:
        own = _settings_of(provider, settings)
        base_url = own_address(own, provider, os.environ) or BASE_URLS[provider]
        known = stored.get(address_of(base_url))
        if known and not refresh and provider not in LOCAL:
            offers[provider] = _known(provider, base_url, known)
            continue
        request = _request(provider, base_url, own, places, patient=bool(wanted))
        if isinstance(request, str):
            offers[provider] = _known(provider, base_url, None, request)
        else:
            requests[provider] = request
    for offer in await _with_progress(list(requests.values())):
        provider, base_url = offer.provider, offer.base_url
        if provider in LOCAL and offer.failure and provider not in (wanted, settings.provider):
            continue  # most users run no local server, so this is not an error
        if offer.failure:
            known = stored.get(address_of(base_url))
            offer = _known(provider, base_url, known, offer.failure)
        offers[provider] = offer
    _keep(places.model_lists, offers.values(), requests)
    found = [offers[provider] for provider in asked if provider in offers]
    return found if wanted else [*found, *(each for each in [_files()] if each.models)]


def _files() -> ModelOffer:
    """The model files on this machine."""
    files = local_files(os.environ)
    models = tuple(
        ListedModel(
            id=file.name,
            window=file.window,
            parameters=file.parameters or None,
            size=file.size,
        )
        for file in files
    )
    failure = "" if files else found_in_words(files)
    return ModelOffer(provider=FILES, base_url="", models=models, failure=failure)


def _all_providers(places: Places, default: ModelChoice | None) -> list[str]:
    with_key = _with_key(os.environ, places.keys_file)
    chosen = [default.provider] if default and default.provider in BASE_URLS else []
    names = dict.fromkeys((*with_key, *chosen, *LOCAL))
    return [name for name in names if name in chosen or _SAME_LIST.get(name) not in names]


def _with_key(environ: Mapping[str, str], keys_file: Path) -> list[str]:
    return [name for name in KEY_VARIABLES if source_of(name, environ, keys_file)]


def _settings_of(provider: str, settings: Settings) -> Settings:
    """The settings for another provider, without the base URL of the configured one."""
    chosen = OTHER_NAMES.get(settings.provider or "", settings.provider)
    base_url = settings.base_url if provider == chosen else None
    return replace(settings, provider=provider, model="any", base_url=base_url)


def _request(
    provider: str, base_url: str, own: Settings, places: Places, *, patient: bool
) -> ListRequest | str:
    """The request for a list, or the reason why there is none."""
    try:
        key = choose_model(own, os.environ, places.keys_file, None).key
    except SettingsError as error:
        return str(error)
    seconds = LOCAL_SECONDS if provider in LOCAL and not patient else SECONDS
    secret = key.reveal() if key else ""
    return ListRequest(provider=provider, base_url=base_url, key=secret, seconds=seconds)


async def _with_progress(requests: list[ListRequest]) -> list[ModelOffer]:
    async def report() -> None:
        await anyio.sleep(PROGRESS_AFTER)
        print(f"Asking {', '.join(each.provider for each in requests)} …", file=sys.stderr)

    async with anyio.create_task_group() as group:
        group.start_soon(report)
        offers = await ask_for_lists(requests)
        group.cancel_scope.cancel()
    return offers


def _known(provider: str, base_url: str, known: ModelList | None, failure: str = "") -> ModelOffer:
    """The models in the last list, or else those in `models.toml`."""
    models = known.models if known else ()
    if known is None and provider not in LOCAL:  # only a local server itself knows its models
        models = tuple(ListedModel(id=name) for name in known_models(provider))
    return ModelOffer(
        provider=provider,
        base_url=base_url,
        models=models,
        fetched=known.fetched if known else None,
        failure=failure,
    )


def _keep(file: Path, offers: Any, requests: Mapping[str, ListRequest]) -> None:
    fresh = [
        ModelList(
            provider=each.provider,
            address=address_of(each.base_url),
            fetched=each.fetched,
            models=each.models,
        )
        for each in offers
        if each.provider in requests and each.fetched is not None and not each.failure
    ]
    try:
        if fresh:
            keep_lists(file, fresh)
    except (OSError, StorageError) as error:
        print(harmless(f"note: The lists could not be stored: {error}"), file=sys.stderr)
