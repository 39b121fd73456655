from rookery.core.facts import Usage
from rookery.core.folds.run_tallies import added
from support.each_row import each_row


@each_row(
    ("one", "other", "cost"),
    [(None, None, None), (None, 0.5, 0.5), (0.5, None, 0.5), (0.5, 0.25, 0.75), (0.0, None, 0.0)],
)
def test_a_cost_is_unknown_only_if_none_is_known(
    one: float | None, other: float | None, cost: float | None
):
    used = Usage(tokens_in=1, tokens_out=2, cache_reads=3, cache_writes=4, cost=one)
    more = Usage(tokens_in=10, tokens_out=20, cache_reads=30, cache_writes=40, cost=other)
    assert added(used, more) == Usage(
        tokens_in=11, tokens_out=22, cache_reads=33, cache_writes=44, cost=cost
    )
