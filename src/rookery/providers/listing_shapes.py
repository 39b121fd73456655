"""Reads the lists of models that providers and local servers offer.

All shapes are read by one table of fields, because servers borrow names from each other. A value
of the wrong type counts as missing: lists come from servers and are not trusted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rookery.providers.wire_format import count, rows, table, words

MOST_MODELS = 2_000
LONGEST_ID = 200
_MILLION = 1_000_000
_LOWEST_WINDOW = 256
_HIGHEST_PRICE = 10_000.0
_MOST_PARAMETERS = 10**14

_WINDOW = (
    *("loaded_context_length", "context_length", "context_window", "max_context_length"),
    *("max_model_len", "max_input_tokens", "inputTokenLimit", "limits.max_input_tokens"),
    *("meta.n_ctx", "meta.n_ctx_train"),
)
_WINDOW_IN_USE = ("loaded_context_length", "max_model_len", "meta.n_ctx")
"""Not the longest that a model was trained for."""
_OUTPUT = (
    *("top_provider.max_completion_tokens", "max_completion_tokens", "outputTokenLimit"),
    *("limits.max_output_tokens", "max_tokens"),
)
_ABILITY_LISTS = (
    *("capabilities", "supported_parameters", "tags", "input_modalities"),
    *("architecture.input_modalities", "supported_input_modalities"),
)
"""Lists of words; a model has an ability if one of them names it."""
_ABILITIES = {
    "images": frozenset({"image", "vision"}),
    "thinking": frozenset({"reasoning", "thinking"}),
    "tools": frozenset({"tools", "tool_use", "tool-use", "tool-calling"}),
}
"""The words for each ability in lists."""
_ABILITY_FIELDS = {
    "images": (
        *("supports_image_input", "supports_image_in", "supports_vision", "capabilities.vision"),
    ),
    "thinking": ("supports_reasoning", "thinking", "capabilities.reasoning"),
    "tools": ("supports_tools", "capabilities.function_calling"),
}
_ANTHROPIC_ABILITIES = {
    "images": "capabilities.image_input.supported",
    "thinking": "capabilities.thinking.types.adaptive.supported",
}
_PRICES = {
    "input_price": ("pricing.prompt", "pricing.input"),
    "output_price": ("pricing.completion", "pricing.output"),
    "cache_read_price": ("pricing.input_cache_read", "pricing.cached_input"),
    "cache_write_price": ("pricing.input_cache_write",),
}
"""A price in a string is for one token, a number is for a million of them."""
_PRICES_OF_XAI = {
    "input_price": "prompt_text_token_price",
    "output_price": "completion_text_token_price",
    "cache_read_price": "cached_prompt_text_token_price",
}
"""In hundredths of a cent for a million tokens."""
_OTHER_KINDS = frozenset(
    {"embedding", "embeddings", "image", "audio", "video", "rerank", "moderation", "transcribe"}
)
_OTHER_NAMES = re.compile(
    r"embed|whisper|\btts|-tts|dall-e|moderation|transcribe|realtime|gpt-image|imagine|\bsora|rerank"
)


class ListedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that a server reports about a model; None if unknown. Prices are dollars per million
    tokens."""

    id: str
    window: int | None = None
    max_output: int | None = None
    images: bool | None = None
    thinking: bool | None = None
    tools: bool | None = None
    parameters: float | None = None
    size: int | None = None
    """Bytes of its file."""
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


def read_list(data: Any) -> tuple[ListedModel, ...] | None:
    """The models in a list of any known shape; None if it is not a list of models."""
    entries = data if isinstance(data, list) else table(data).get("data")
    if entries is None:
        entries = table(data).get("models")
    if not isinstance(entries, list):
        return None
    found: dict[str, ListedModel] = {}
    for entry in map(table, entries):
        if len(found) < MOST_MODELS and (model := _model(entry)):
            found.setdefault(model.id, model)
    return tuple(found.values())


def shown_by_ollama(model: ListedModel, data: Any, running: int | None) -> ListedModel:
    """The model with what `/api/show` says. The window is that of the running model, or the one
    set for it, or else the longest it was trained for."""
    from msgspec.structs import replace

    about = table(table(data).get("model_info"))
    trained = count(about.get(f"{words(about.get('general.architecture'))}.context_length"))
    window = running or _set_in_ollama(data) or trained
    abilities = rows(table(data).get("capabilities"))
    known = {name: bool(called & _words(abilities)) for name, called in _ABILITIES.items()}
    return replace(model, window=_window(window), **(known if abilities else {}))


def running_in_ollama(data: Any) -> dict[str, int]:
    """The windows of the models that `/api/ps` lists."""
    loaded = map(table, rows(table(data).get("models")))
    windows = {words(each.get("name")): _window(each.get("context_length")) for each in loaded}
    return {name: window for name, window in windows.items() if window}


def window_of_llama_cpp(data: Any) -> int | None:
    """The window that `/props` of llama.cpp reports."""
    return _window(_at(table(data), "default_generation_settings.n_ctx"))


def window_set_in_ollama(data: Any, model: str, shown: Any) -> int | None:
    """The window that `/api/ps` reports of a running model, or `/api/show` as set for it."""
    loaded = running_in_ollama(data)
    found = loaded.get(model) or loaded.get(f"{model}:latest")
    return found or _window(_set_in_ollama(shown))


def _set_in_ollama(shown: Any) -> int | None:
    """The window that `/api/show` says is set for a model."""
    setting = re.search(r"^num_ctx\s+(\d{1,9})\s*$", words(table(shown).get("parameters")), re.M)
    return int(setting[1]) if setting else None


def facts_in_use(data: Any, model: str) -> dict[str, Any]:
    """The window with which a server runs a model, and the billions of its parameters, if its list
    says so. A server of one model accepts any name."""
    entries = [table(entry) for entry in rows(table(data).get("data"))]
    named = [entry for entry in entries if words(entry.get("id")) == model]
    chosen = named or (entries if len(entries) == 1 else [])
    if not chosen:
        return {}
    size = _at(chosen[0], "meta.n_params")  # of llama.cpp
    known = isinstance(size, int) and 0 < size < _MOST_PARAMETERS
    facts = {"parameters": size / 1e9} if known else {}
    window = _first(_window, chosen[0], _WINDOW_IN_USE)
    return {**facts, "window": window} if window else facts


def _model(entry: Mapping[str, Any]) -> ListedModel | None:
    name = words(entry.get("id")) or words(entry.get("name")) or words(entry.get("model"))
    name = name.removeprefix("models/")
    if not name or len(name) > LONGEST_ID or not name.isprintable():
        return None
    if not _talks(entry, name):
        return None
    return ListedModel(
        id=name,
        window=_first(_window, entry, _WINDOW),
        max_output=_first(_window, entry, _OUTPUT),
        parameters=_parameters(_at(entry, "details.parameter_size")),
        **{**_abilities(entry), **_prices(entry)},
    )


def _talks(entry: Mapping[str, Any], name: str) -> bool:
    """Whether it is a model for text, if the list says so."""
    methods = rows(entry.get("supportedGenerationMethods"))
    outputs = entry.get("supported_output_modalities") or _at(
        entry, "architecture.output_modalities"
    )
    return (
        words(entry.get("type")) not in _OTHER_KINDS
        and _at(entry, "capabilities.completion_chat") is not False
        and _at(entry, "capabilities.chat_completion") is not False
        and entry.get("supports_chat") is not False
        and (not methods or "generateContent" in methods)
        and (not rows(outputs) or "text" in rows(outputs))
        and words(entry.get("lifecycle")) != "retired"
        and not _OTHER_NAMES.search(name.lower())
    )


def _abilities(entry: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(_at(entry, "capabilities.image_input"), dict):
        values = {name: _at(entry, path) for name, path in _ANTHROPIC_ABILITIES.items()}
        return {name: value for name, value in values.items() if isinstance(value, bool)}
    lists = [each for path in _ABILITY_LISTS if (each := rows(_at(entry, path)))]
    named = _words(word for each in lists for word in each)
    if words(entry.get("type")) == "vlm":
        named |= {"vision"}
    return {name: _ability(entry, name, named) for name in _ABILITIES}


def _ability(entry: Mapping[str, Any], name: str, named: frozenset[str]) -> bool | None:
    for path in _ABILITY_FIELDS[name]:
        if isinstance(value := _at(entry, path), bool):
            return value
    if named & _ABILITIES[name]:
        return True
    # any of the lists would name images, but some say nothing about the rest
    return False if named and name == "images" else None


def _prices(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "prompt_text_token_price" in entry:
        hundredths = {name: entry.get(path) for name, path in _PRICES_OF_XAI.items()}
        return {name: _price(value, 1 / 10_000) for name, value in hundredths.items()}
    return {name: _first(_any_price, entry, paths) for name, paths in _PRICES.items()}


def _any_price(value: object) -> float | None:
    if isinstance(value, str):
        try:
            return _price(float(value), _MILLION)
        except ValueError:
            return None
    return _price(value, 1)


def _price(value: object, factor: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * factor, 6) if 0 <= value * factor <= _HIGHEST_PRICE else None


def _window(value: object) -> int | None:
    known = count(value)
    return known if known is not None and known >= _LOWEST_WINDOW else None


def _parameters(value: object) -> float | None:
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,3})?)([BM])", words(value))
    return float(match[1]) / (1 if match[2] == "B" else 1000) if match else None


def _words(values: Iterable[object]) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str))


def _first(read: Any, entry: Mapping[str, Any], paths: Iterable[str]) -> Any:
    known: Iterator[Any] = (read(_at(entry, path)) for path in paths)
    return next((value for value in known if value is not None), None)


def _at(entry: Mapping[str, Any], path: str) -> Any:
    value: Any = entry
    for name in path.split("."):
        value = table(value).get(name)
    return value
