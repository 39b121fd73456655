"""What is secret is read nowhere in what tools return, however it comes."""

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.output_preview import HIDDEN, SHORTEST, Hiding

KEY = "sk-ant-0123456789"
OTHER = 'token"with\\signs'


def test_every_secret_is_replaced_and_all_else_is_left():
    hide = Hiding([KEY, OTHER])
    assert hide(f"A={KEY}\nB={OTHER}{KEY}.") == f"A={HIDDEN}\nB={HIDDEN}{HIDDEN}."
    assert hide("sk-ant-012345678") == "sk-ant-012345678"


def test_a_secret_is_found_as_it_stands_in_json():
    assert Hiding([OTHER])('{"a": "token\\"with\\\\signs"}') == f'{{"a": "{HIDDEN}"}}'


def test_of_two_that_begin_alike_the_longer_one_is_found():
    assert Hiding([KEY, KEY + "-more"])(f"{KEY}-more {KEY}") == f"{HIDDEN} {HIDDEN}"


def test_what_is_too_short_to_be_a_secret_is_left():
    word = "x" * (SHORTEST - 1)
    assert Hiding([word, ""])(f"{word} is a word") == f"{word} is a word"
    assert Hiding()("anything") == "anything"


PIECES = st.lists(st.sampled_from([KEY, KEY[:5], KEY[5:], "s", "sk-", "a\n", "", OTHER]))


@given(PIECES, st.data())
def test_it_does_not_matter_where_a_stream_is_cut(pieces: list[str], data: st.DataObject):
    text, hide = "".join(pieces), Hiding([KEY, OTHER])
    stream, shown, at = hide.stream(), "", 0
    while at < len(text):
        length = data.draw(st.integers(1, 7))
        shown += stream.add(text[at : at + length])
        at += length
        assert KEY not in shown
        assert len(hide(text[:at])) - len(shown) < max(len(KEY), len(OTHER) * 2)
    assert shown + stream.finish() == hide(text)
    assert stream.finish() == ""
