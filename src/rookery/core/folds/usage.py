"""What a task has used, added up over its requests."""

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import Usage


def added(one: Usage, other: Usage) -> Usage:
    """Both together. The cost is unknown only if neither's is known."""
    costs = [usage.cost for usage in (one, other) if usage.cost is not None]
    return Usage(
        tokens_in=one.tokens_in + other.tokens_in,
        tokens_out=one.tokens_out + other.tokens_out,
        cache_reads=one.cache_reads + other.cache_reads,
        cache_writes=one.cache_writes + other.cache_writes,
        cost=sum(costs) if costs else None,
    )


class Totals(Struct, frozen=True, kw_only=True):
    """Sums over all requests. What the provider never told about its cache stays None.

    `context_tokens` is the size of the newest request that said its size.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cache_writes: int | None = None
    cache_reads: int | None = None
    cost: float = 0.0
    context_tokens: int = 0


def plus(totals: Totals, usage: Usage) -> Totals:
    caching = bool(usage.cache_reads or usage.cache_writes)
    return replace(
        totals,
        tokens_in=totals.tokens_in + usage.tokens_in,
        tokens_out=totals.tokens_out + usage.tokens_out,
        cache_writes=_sum(totals.cache_writes, usage.cache_writes)
        if caching
        else totals.cache_writes,
        cache_reads=_sum(totals.cache_reads, usage.cache_reads) if caching else totals.cache_reads,
        cost=totals.cost + (usage.cost or 0.0),
        context_tokens=(usage.tokens_in + usage.tokens_out) or totals.context_tokens,
    )


def _sum(total: int | None, more: int) -> int:
    return (total or 0) + more
