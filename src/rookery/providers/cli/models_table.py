"""The table of models that `rookery models` prints."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from rookery import NAME
from rookery.app.model_choice import ModelChoice
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import aligned
from rookery.engine.ports.model import ModelInfo
from rookery.providers.catalogue import find_model
from rookery.providers.listing_shapes import ListedModel
from rookery.providers.listings import ModelOffer
from rookery.providers.model_cache import address_of, facts_of
from rookery.providers.model_files import size_in_words
from rookery.providers.registry import DEFAULT_MODELS, LOCAL, how_to_get_a_model

_HEADINGS = ("provider", "model", "window", "$ in", "$ out", "size", "abilities", "")
_SIZE = _HEADINGS.index("size")


def as_json(
    offers: Sequence[ModelOffer],
    default: ModelChoice | None,
    settings: Settings,
) -> dict[str, Any]:
    named = {"provider": default.provider, "model": default.model} if default else None
    return {
        "models": {offer.provider: [model.id for model in offer.models] for offer in offers},
        "default": named,
        "providers": {
            offer.provider: {
                "address": address_of(offer.base_url),
                "fetched": int(offer.fetched) if offer.fetched is not None else None,
                "failure": offer.failure or None,
                "models": [
                    {
                        **to_builtins(_info(offer, model, settings)),
                        "tools": model.tools,
                        "size": model.size,
                    }
                    for model in offer.models
                ],
            }
            for offer in offers
        },
    }


def as_text(
    offers: Sequence[ModelOffer],
    default: ModelChoice | None,
    settings: Settings,
    trouble: str,
    *,
    only: str,
    address: str = "",
) -> str:
    """The table and notes. `only` is the provider that was asked for; `address` is the flag with
    its address."""
    usual = (default.provider, default.model) if default else ("", "")
    offered = [(offer, model) for offer in offers for model in offer.models]
    rows = [_row(_info(offer, each, settings), each, usual) for offer, each in offered]
    if default and not only and not any(row[-1] for row in rows):
        rows.insert(0, [*usual, "", "", "", "", "", "default"])
    notes = [f"note: {trouble}"] if trouble and not only else []
    notes += [_failure(offer) for offer in offers if offer.failure]
    if not rows:
        return "\n".join(notes) or _no_models(only)
    first = usual if default and not only else _suggested(rows)
    shown = [list(_HEADINGS), *rows]
    if not any(row[_SIZE] for row in rows):  # so that a vendor's table fits into 80 columns
        shown = [row[:_SIZE] + row[_SIZE + 1 :] for row in shown]
    return "\n".join(
        [
            *aligned(shown, right=frozenset({2, 3, 4})),
            "",
            "Prices are in dollars per million tokens. Empty fields are unknown. -m also accepts "
            "models that are not listed.",
            *_ages(offers),
            *notes,
            f'To use one: {NAME} --provider {first[0]}{address} -m {first[1]} "your task"',
        ]
    )


def _no_models(only: str) -> str:
    if only:
        return f"{only} lists no models."
    return f"No model available. Do one of these:\n{how_to_get_a_model()}"


def _suggested(rows: Sequence[Sequence[str]]) -> tuple[str, str]:
    """The provider's usual model if it is listed, else the first."""
    provider, first = rows[0][:2]
    usual = DEFAULT_MODELS.get(provider, first)
    return provider, usual if any(row[1] == usual for row in rows) else first


def _info(offer: ModelOffer, model: ListedModel, settings: Settings) -> ModelInfo:
    described = settings.models.get(model.id, {})
    return find_model(offer.provider, model.id, described, facts_of(model))


def _row(info: ModelInfo, listed: ListedModel, usual: tuple[str, str]) -> list[str]:
    abilities = {"images": info.images, "reasoning": info.thinking, "tools": listed.tools}
    return [
        *(info.provider, info.id, f"{info.window:,}"),
        *(_price(info.input_price), _price(info.output_price)),
        size_in_words(info.parameters, listed.size or 0),
        ", ".join(name for name, able in abilities.items() if able),
        "default" if (info.provider, info.id) == usual else "",
    ]


def _price(dollars: float | None) -> str:
    return "" if dollars is None else f"{dollars:.4f}".rstrip("0").rstrip(".") or "0"


def _failure(offer: ModelOffer) -> str:
    instead = "the last list" if offer.fetched is not None else f"the models {NAME} knows"
    shown = f" Showing {instead}." if offer.models else ""
    return f"note: {offer.provider}: {offer.failure.rstrip('.')}.{shown}"


def _ages(offers: Sequence[ModelOffer]) -> list[str]:
    remote = [offer for offer in offers if offer.provider not in LOCAL and offer.fetched]
    oldest = max((time.time() - (offer.fetched or 0) for offer in remote), default=0.0)
    if oldest < 60:
        return []
    return [f"The lists are up to {_span(oldest)} old. --refresh fetches them again."]


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "a minute"
