from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.literal_edits import runs

items = st.lists(st.sampled_from("ab"), max_size=20)
pieces = st.lists(st.sampled_from("ab"), min_size=1, max_size=6)


@given(items, pieces, st.integers(0, 5))
def test_every_place_of_a_sequence_is_found(within: list[str], wanted: list[str], start: int):
    places = range(start, len(within) - len(wanted) + 1)
    found = [at for at in places if within[at : at + len(wanted)] == wanted]
    assert list(runs(within, wanted, start)) == found
