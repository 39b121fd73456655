"""Facts about models: context window, prices and abilities, from `models.toml`."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import fields, replace

from rookery.core.facts import Usage
from rookery.engine.ports.model import ModelInfo
from rookery.errors import SettingsError
from rookery.first_use import lazy_pattern

_FILE = Path(__file__).with_name("models.toml")
_MILLION = 1_000_000
_FAMILIES = {
    "responses": "openai",
    "lmstudio": "local",
    "vllm": "local",
    "ollama": "local",
    "vercel-ai-gateway": "openrouter",
    "roo": "openrouter",
    "azure": "openai",
    "vertex": "gemini",
}
_BEDROCK_ID = lazy_pattern(
    r"(?:arn:.*/)?(?:(?:us-gov|us|eu|apac|ap|au|ca|jp|global)\.)?"
    r"(?P<name>anthropic\.(?P<claude>.+?)(?:-v\d+(?::.+)?)?|.+)"
)
"""As in `us.anthropic.claude-sonnet-4-5-20250929-v1:0`: where it runs, its vendor, its version."""
_VERSION = lazy_pattern(r"[-@]\d{8}|-\d{4}-\d\d-\d\d|-latest|:.+")
_PARAMETERS = lazy_pattern(
    r"(?<![a-z0-9.])e?(?:(?P<experts>\d{1,3})x)?"
    r"(?P<count>\d{1,4}(?:\.\d{1,3})?)(?P<unit>[bm])(?![a-z0-9])"
)
_FEWEST_MILLIONS = 20
"""Smaller numbers of millions in a name are context lengths, as in `-1m`."""
_FIELDS = {field.name for field in fields(ModelInfo)} - {"id", "provider", "base_url"}


def find_model(
    provider: str,
    model_id: str,
    described: Mapping[str, Any],
    listed: Mapping[str, Any] = MappingProxyType({}),
) -> ModelInfo:
    """Facts about a model. What the user `described`, by field of `ModelInfo`, takes precedence
    over what the provider `listed`, and that over `models.toml`; unknown models get cautious
    values."""
    if unknown := set(described) - _FIELDS:
        raise SettingsError(
            f"The description of {model_id} in the settings has unknown fields: "
            f"{', '.join(sorted(unknown))}. Available: {', '.join(sorted(_FIELDS))}."
        )
    sized = {"parameters": parameters_in_name(model_id)}
    known = {**sized, **_entry(provider, model_id), **listed, **described}
    usable = {name: value for name, value in known.items() if name in _FIELDS}
    return ModelInfo(id=model_id, provider=provider, **usable)


def parameters_in_name(name: str) -> float:
    """The billions of parameters that a model's name mentions, such as `Llama-3.2-3B-Instruct` or
    `qwen2.5-coder:1.5b`; 0 if it mentions none."""
    for found in _PARAMETERS.finditer(name.lower()):
        count = float(found["count"]) * int(found["experts"] or 1)
        if found["unit"] == "b":
            return count
        if count >= _FEWEST_MILLIONS:
            return count / 1000
    return 0.0


def is_known(provider: str, model_id: str) -> bool:
    """Whether `models.toml` has a row for the model."""
    return bool(_named(provider, model_id))


def known_models(provider: str) -> Sequence[str]:
    return [name for name in _family(provider) if name != "*"]


def takes_budget(model: ModelInfo) -> bool:
    """Whether it reasons only with a token budget."""
    return bool(_entry(model.provider, model.id).get("budgeted"))


def cost(model: ModelInfo, usage: Usage) -> float | None:
    """The cost in dollars; None if a price is unknown."""
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
    """The usage with its cost: as reported by the provider, or computed from prices."""
    if isinstance(reported, int | float) and 0 <= reported < _MILLION:
        return replace(usage, cost=float(reported))
    return replace(usage, cost=cost(model, usage))


def _or_input(price: float | None, model: ModelInfo) -> float:
    return price if price is not None else model.input_price or 0.0


def _long_context(model: ModelInfo, tokens_in: int) -> tuple[float, float]:
    """Price factors for input and output of a long prompt."""
    entry = _entry(model.provider, model.id)
    if entry.get("input_price") != model.input_price or tokens_in <= entry.get("long_above", 1e12):
        return 1.0, 1.0
    return entry["long_input"], entry["long_output"]


def _entry(provider: str, model_id: str) -> dict[str, Any]:
    """A model's row, completed with the default values."""
    provider, model_id = _home(provider, model_id)
    return {**_family(provider).get("*", {}), **_named(provider, model_id)}


def _home(provider: str, model_id: str) -> tuple[str, str]:
    """Where a model is described, and by which name."""
    if provider == "bedrock" and (found := _BEDROCK_ID.fullmatch(model_id)):
        return ("anthropic", found["claude"]) if found["claude"] else ("bedrock", found["name"])
    if provider == "vertex" and model_id.startswith("claude-"):
        return "anthropic", model_id
    return provider, model_id


def _named(provider: str, model_id: str) -> dict[str, Any]:
    """A model's row: by full name, or without date or tag."""
    provider, model_id = _home(provider, model_id)
    family = _family(provider)
    return family.get(model_id) or next(
        (
            row
            for name, row in sorted(family.items(), key=lambda item: -len(item[0]))
            if model_id.startswith(name) and _VERSION.fullmatch(model_id, len(name))
        ),
        {},
    )


@cache
def _family(provider: str) -> Mapping[str, dict[str, Any]]:
    """The rows of a family. The others are not parsed: that would take most of the time."""
    import tomllib

    name = _FAMILIES.get(provider, provider)
    section = f"\n{_FILE.read_text(encoding='utf-8')}".partition(f"\n[{name}]\n")[2]
    return tomllib.loads(section.partition("\n[")[0])
