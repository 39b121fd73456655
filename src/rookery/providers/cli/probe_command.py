"""`rookery models --probe`: what one model and its server can do, tested with a few short requests.

Only the shape of an answer counts, because answers are not trusted.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.app.model_choice import ModelChoice, Models, choose_model
from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.core.limits import FailureKind
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.core.text.written_calls import read_calls
from rookery.engine.ports.model import (
    CallChunk,
    ModelInfo,
    ModelRequest,
    Provider,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
)
from rookery.errors import ProviderError, RookeryError, SettingsError
from rookery.platform.user_folders import Places, find_places
from rookery.providers.listings import LOCAL_SECONDS, ListRequest, loaded_facts
from rookery.providers.model_cache import ProbedModel, address_of, remember
from rookery.providers.registry import BASE_URLS, is_loopback
from rookery.storage.settings_files import find_settings

SECONDS = 120.0
TOKENS_IN, TOKENS_OUT = 400, 800
"""The most that one probe may cost."""
MOST_OUTPUT = 200
MOST_TEXT = 16 * 1024
ABILITIES = ("streaming", "native calls", "JSON schema", "continuation")
_REFUSALS = (FailureKind.REJECTED, FailureKind.BROKEN_HISTORY, FailureKind.EMPTY)
"""Failures that show a missing ability; all others end the probe."""
_TOOL = ToolSpec(
    "report_city",
    "Report a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_SCHEMA = {
    "type": "object",
    "properties": {"teal_field": {"type": "string", "enum": ["north", "south"]}},
    "required": ["teal_field"],
    "additionalProperties": False,
}
PRINTED = "it prints calls as text"


class Ability(Struct, frozen=True):
    """One result. `able` is None if it is not known."""

    name: str
    able: bool | None
    detail: str = ""


class _ProbeReply(Struct):
    text: str = ""
    pieces: int = 0
    called: str = ""


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


async def probe(
    provider: Provider, *, seconds: float = SECONDS, begin: Callable[[str], None]
) -> list[Ability]:
    """The model's abilities, as far as it answers; `begin` is called before each question.

    Raises `ProviderError` if the model cannot be reached at all.
    """
    found: list[Ability] = []
    for name in ABILITIES:
        begin(name)
        reply = _ProbeReply()
        try:
            with anyio.fail_after(seconds):
                await _listen(provider, _request(name), reply)
            found.append(_judged(name, reply))
        except TimeoutError:
            found.append(Ability(name, None, f"no complete answer within {seconds:g} seconds"))
            break
        except ProviderError as error:
            if error.kind not in _REFUSALS or name == ABILITIES[0]:
                raise
            found.append(Ability(name, False, str(error)))
    asked = {each.name for each in found}
    return [*found, *(Ability(name, None, "not tested") for name in ABILITIES if name not in asked)]


def way_to_call(abilities: list[Ability]) -> str | None:
    """How the model calls tools, as `ModelInfo.calls` has it; None if it is not known."""
    known = {each.name: each for each in abilities}
    native = known["native calls"]
    if native.able is None:
        return None
    if native.able:
        return "native"
    return "schema" if known["JSON schema"].able and native.detail != PRINTED else "text"


def _request(name: str) -> ModelRequest:
    match name:
        case "streaming":
            return _question("Count from 1 to 9, separated by commas.")
        case "native calls":
            return _question("Call the tool report_city with the city Paris.", tools=(_TOOL,))
        case "JSON schema":
            return _question("Which way is the sea? Choose one.", schema=True)
        case _:
            begun = Turn("assistant", (Text(text="1, 2, 3, 4,"),))
            return _question("Count from 1 to 9, separated by commas.", begun)


def _question(
    text: str, *more: Turn, tools: tuple[ToolSpec, ...] = (), schema: bool = False
) -> ModelRequest:
    return ModelRequest(
        system="",
        turns=(Turn("user", (Text(text=text),)), *more),
        tools=tools,
        max_output=MOST_OUTPUT,
        answer_schema=_SCHEMA if schema else None,
    )


async def _listen(provider: Provider, request: ModelRequest, reply: _ProbeReply) -> None:
    async with provider.stream(request) as chunks:
        async for chunk in chunks:
            match chunk:
                case TextChunk(text):
                    reply.pieces += 1
                    reply.text = (reply.text + text)[:MOST_TEXT]
                case ThinkingChunk():
                    reply.pieces += 1
                case CallChunk(name=name):
                    reply.called = reply.called or name


def _judged(name: str, reply: _ProbeReply) -> Ability:
    match name:
        case "streaming":
            # a fast server may send all its events at once
            many = reply.pieces > 1
            return Ability(name, many or None, "" if many else "the answer came in one piece")
        case "native calls":
            if reply.called:
                return Ability(name, reply.called == _TOOL.name)
            printed = read_calls(reply.text, {_TOOL.name: _TOOL.schema}).calls
            return Ability(name, False, PRINTED if printed else "")
        case "JSON schema":
            return Ability(name, _keeps_to_schema(reply.text))
        case _:
            return Ability(name, reply.text.lstrip().startswith("5"))


def _keeps_to_schema(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("teal_field") in ("north", "south")
