"""What is known of models: window, abilities and prices, from `models.toml`."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import fields, replace

from rookery.core.facts import Usage
from rookery.engine.ports.model import ModelInfo
from rookery.errors import SettingsError

_FILE = Path(__file__).with_name("models.toml")
_MILLION = 1_000_000
_FAMILIES = {
    "responses": "openai",
    "lmstudio": "local",
    "vllm": "local",
    "ollama": "local",
    "vercel-ai-gateway": "openrouter",
    "roo": "openrouter",
}
_VERSION = re.compile(r"[-@]\d{8}|-\d{4}-\d\d-\d\d|-latest|:.+")
_FIELDS = {field.name for field in fields(ModelInfo)} - {"id", "provider", "base_url"}


def find_model(provider: str, model_id: str, described: Mapping[str, Any]) -> ModelInfo:
    """What is known of a model. What the user has `described` of it, by the names of
    `ModelInfo`'s fields, wins; a model that nobody knows gets cautious values."""
    if unknown := set(described) - _FIELDS:
        raise SettingsError(
            f"The description of {model_id} in the settings has unknown fields: "
            f"{', '.join(sorted(unknown))}. Known: {', '.join(sorted(_FIELDS))}."
        )
    known = {**_entry(provider, model_id), **described}
    usable = {name: value for name, value in known.items() if name in _FIELDS}
    return ModelInfo(id=model_id, provider=provider, **usable)


def known_models(provider: str) -> Sequence[str]:
    return [name for name in _family(provider) if name != "*"]


def takes_budget(model: ModelInfo) -> bool:
    """Whether it reasons only if it is told how many tokens to spend on that."""
    return bool(_entry(model.provider, model.id).get("budgeted"))


def cost(model: ModelInfo, usage: Usage) -> float | None:
    """Dollars for what was used; None if a price is unknown."""
    if model.input_price is None or model.output_price is None:
        return None
    dearer_in, dearer_out = _long_context(model, usage.tokens_in)
    reads = min(usage.cache_reads, usage.tokens_in)
    writes = min(usage.cache_writes, usage.tokens_in - reads)
    fresh = usage.tokens_in - reads - writes
    paid_in = (
        fresh * model.input_price
        + reads * _or_input(model.cache_read_price, model)
        + writes * _or_input(model.cache_write_price, model)
    )
    paid_out = usage.tokens_out * model.output_price
    return (paid_in * dearer_in + paid_out * dearer_out) / _MILLION


def priced(model: ModelInfo, usage: Usage, reported: object = None) -> Usage:
    """The usage with its cost: what the provider says it charged, else what its prices make."""
    if isinstance(reported, int | float) and 0 <= reported < _MILLION:
        return replace(usage, cost=float(reported))
    return replace(usage, cost=cost(model, usage))


def _or_input(price: float | None, model: ModelInfo) -> float:
    return price if price is not None else model.input_price or 0.0


def _long_context(model: ModelInfo, tokens_in: int) -> tuple[float, float]:
    """By how much a long prompt makes input and output dearer."""
    entry = _entry(model.provider, model.id)
    if entry.get("input_price") != model.input_price or tokens_in <= entry.get("long_above", 1e12):
        return 1.0, 1.0
    return entry["long_input"], entry["long_output"]


def _entry(provider: str, model_id: str) -> dict[str, Any]:
    """A model's row: by its whole name, else without its date or tag, else by its family."""
    family = _family(provider)
    named = family.get(model_id) or next(
        (
            row
            for name, row in sorted(family.items(), key=lambda item: -len(item[0]))
            if model_id.startswith(name) and _VERSION.fullmatch(model_id, len(name))
        ),
        {},
    )
    return {**family.get("*", {}), **named}


def _family(provider: str) -> Mapping[str, dict[str, Any]]:
    return _catalogue().get(_FAMILIES.get(provider, provider), {})


@cache
def _catalogue() -> dict[str, dict[str, dict[str, Any]]]:
    import tomllib

    return tomllib.loads(_FILE.read_text(encoding="utf-8"))
