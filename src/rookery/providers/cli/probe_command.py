"""`rookery models --probe`: what one model can do."""

import json
import os
import sys
import time
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace

from rookery.app.model_choice import ModelChoice, Models, choose_model
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.engine.ports.model import ModelInfo
from rookery.errors import ProviderError, RookeryError, SettingsError
from rookery.platform.user_folders import Places, find_places
from rookery.providers.listings import LOCAL_SECONDS, ListRequest, loaded_facts
from rookery.providers.model_cache import ProbedModel, address_of, remember
from rookery.providers.probe import ABILITIES, TOKENS_IN, TOKENS_OUT, Ability, probe, way_to_call
from rookery.providers.registry import BASE_URLS, is_loopback
from rookery.storage.settings_files import find_settings


def probe_model(provider: str, model: str | None, base_url: str | None, form: str) -> int:
    """Test one model, print what it can do, and store the result."""
    places = find_places(os.environ)
    given = {"provider": provider or None, "model": model, "base_url": base_url}
    settings = find_settings(places.settings_file, None, os.environ, {}).settings
    if provider and provider != settings.provider:
        settings = replace(settings, model=None, base_url=None)
    settings = replace(settings, **{name: value for name, value in given.items() if value})
    choice = choose_model(settings, os.environ, places.keys_file, None)
    if choice.provider not in BASE_URLS:
        raise SettingsError(f"Cannot probe {choice.provider}: it is not a server.")
    address = address_of(choice.base_url or BASE_URLS[choice.provider])
    try:
        abilities, window = anyio.run(_asked, settings, choice)
    except ProviderError as error:
        print(harmless(f"{error}\nNothing was stored."), file=sys.stderr)
        return 1
    seen = partial(_seen, {each.name: each.able for each in abilities}, window, abilities)
    _keep(places, address, choice.model, seen)
    if form == "json":
        results = {each.name: {"able": each.able, "detail": each.detail} for each in abilities}
        print(json.dumps({"address": address, "model": choice.model, "window": window, **results}))
        return 0
    print(harmless_line(f"{choice.provider} {choice.model} at {address}"))
    for each in abilities:
        print(harmless_line(_line(each)))
    print(f"{'context':14} {f'{window:,} tokens' if window else 'unknown'}")
    return 0


async def _asked(settings: Settings, choice: ModelChoice) -> tuple[list[Ability], int | None]:
    base_url = choice.base_url or BASE_URLS[choice.provider]
    models = Models(settings, choice, lambda other: choice)
    provider = models.of("", "")
    local = is_loopback(base_url)
    if not local:
        print(harmless_line(_cost(provider.model)), file=sys.stderr)
    try:
        abilities = await probe(
            provider, begin=lambda name: print(f"Testing {name} …", file=sys.stderr)
        )
    finally:
        await models.aclose()
    key = choice.key.reveal() if choice.key else ""
    server = ListRequest(
        provider=choice.provider, base_url=base_url, key=key, seconds=LOCAL_SECONDS
    )
    # asked last, because some servers know the window only of a loaded model
    facts = await loaded_facts(server, choice.model) if local else {}
    return abilities, facts.get("window")


def _cost(model: ModelInfo) -> str:
    tokens = f"{len(ABILITIES)} requests with up to {TOKENS_IN + TOKENS_OUT:,} tokens in all"
    if model.input_price is None or model.output_price is None:
        return f"Sending {tokens} to {model.provider}; the price is unknown."
    dollars = (TOKENS_IN * model.input_price + TOKENS_OUT * model.output_price) / 1_000_000
    return f"Sending {tokens} to {model.provider}, for at most ${dollars:.4f}."


def _seen(
    able: dict[str, Any], window: int | None, abilities: list[Ability], before: ProbedModel
) -> ProbedModel:
    known = {
        "window": window,
        "calls": way_to_call(abilities),
        "streaming": able["streaming"],
        "schema": able["JSON schema"],
        "continuation": able["continuation"],
    }
    return replace(before, **{name: value for name, value in known.items() if value is not None})


def _keep(places: Places, address: str, model: str, seen: Any) -> None:
    try:
        remember(places.model_probes, address, model, seen, time.time())
    except (OSError, RookeryError) as error:
        print(harmless(f"note: The result could not be stored: {error}"), file=sys.stderr)


def _line(ability: Ability) -> str:
    answer = {True: "yes", False: "no", None: "unknown"}[ability.able]
    return f"{ability.name:14} {answer}{f': {ability.detail}' if ability.detail else ''}"
