"""Where a sequence stands in a longer one."""

from collections.abc import Iterator, Sequence


def runs(items: Sequence[str], wanted: Sequence[str], start: int = 0) -> Iterator[int]:
    """Every place, overlapping ones too, in time that grows with the lengths of both (Knuth,
    Morris and Pratt's way): no item is looked at again for every beginning it could belong to.
    """
    falls = _falls(wanted)
    met = 0
    for at in range(start, len(items)):
        item = items[at]
        while met and wanted[met] != item:
            met = falls[met]
        met += wanted[met] == item
        if met == len(wanted):
            yield at + 1 - met
            met = falls[met]


def _falls(wanted: Sequence[str]) -> list[int]:
    """For each number of items met: how many are still met if the next one is another."""
    falls = [0, 0]
    met = 0
    for item in wanted[1:]:
        while met and wanted[met] != item:
            met = falls[met]
        met += wanted[met] == item
        falls.append(met)
    return falls
