"""Secrets are masked in everything that tools return."""

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.terminal_text import HIDDEN, SHORTEST, Hiding

KEY = "sk-ant-0123456789"
OTHER = 'token"with\\signs'


def test_every_secret_is_masked_and_other_text_is_kept():
    hide = Hiding([KEY, OTHER])
    assert hide(f"A={KEY}\nB={OTHER}{KEY}.") == f"A={HIDDEN}\nB={HIDDEN}{HIDDEN}."
    assert hide("sk-ant-012345678") == "sk-ant-012345678"


def test_a_json_escaped_secret_is_masked():
    assert Hiding([OTHER])('{"a": "token\\"with\\\\signs"}') == f'{{"a": "{HIDDEN}"}}'


def test_the_longer_of_two_secrets_with_one_prefix_is_masked():
    assert Hiding([KEY, KEY + "-more"])(f"{KEY}-more {KEY}") == f"{HIDDEN} {HIDDEN}"


def test_short_values_are_not_masked():
    word = "x" * (SHORTEST - 1)
    assert Hiding([word, ""])(f"{word} is a word") == f"{word} is a word"
    assert Hiding()("anything") == "anything"


PIECES = st.lists(st.sampled_from([KEY, KEY[:5], KEY[5:], "s", "sk-", "a\n", "", OTHER]))


@given(PIECES, st.data())
def test_secrets_split_across_stream_chunks_are_masked(pieces: list[str], data: st.DataObject):
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
