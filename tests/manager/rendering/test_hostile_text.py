"""Texts of models that are small and become huge, take long, or lead elsewhere than they say."""

import time

import pytest

from rookery.manager.rendering.markdown_html import MOST_ADDRESSES, SECONDS_TO_RENDER, rendered

LONG = "https://x.example/" + "y" * 20_000


def bomb(use: str, times: int) -> str:
    return f"[a]: {LONG}\n\n" + f"{use}\n" * times


@pytest.mark.parametrize("use", ["[a]", "![a]", "[b][a]"], ids=["link", "picture", "named link"])
def test_an_address_that_is_referred_to_often_is_not_written_as_often(use: str):
    html = rendered(bomb(use, 2_000))
    assert sum(map(len, html)) < 4 * MOST_ADDRESSES, "not 2,000 times 20,000"


def test_what_is_referred_to_a_few_times_is_a_link_each_time():
    html = "".join(rendered(bomb("[a]", 5)))
    assert html.count(f'href="{LONG}"') == 5


def test_texts_that_take_long_end_as_plain_ones():
    """Each block of it takes more than its share."""
    wide = "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + "a\n" * 6_000
    begin = time.thread_time()
    blocks = rendered(f"{wide}\n" * 5 + "The *end*")
    assert "*end*" in blocks[-1]
    assert SECONDS_TO_RENDER < time.thread_time() - begin < 5
    assert sum("<table>" in block for block in blocks) < 5


ELSEWHERE = {
    "our own server": "[x](http:other.example)",
    "our own root": "[x](http:/other.example)",
    "no host": "[x](https:///other.example)",
    "no end to the host": f"[x](https://good.example.{'a' * 300}.evil.example)",
}


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_an_address_without_a_host_is_no_link(text: str):
    assert "<a" not in "".join(rendered(text))


def test_who_is_asked_for_is_told_also_behind_a_name_that_looks_like_a_host():
    (html,) = rendered("<https://good.example@evil.example>")
    assert '<span class="host"> (evil.example)</span>' in html


def test_a_long_address_leads_where_it_says():
    address = f"https://x.example/{'y' * 600}"
    (html,) = rendered(f"[x]({address})")
    assert f'href="{address}"' in html


HIDDEN = {
    "many of one": ("a" + "\u200b" * 9_000 + "b", "U+200B ×500"),
    "a sign for emoji only": ("ad\ufe0fb", "U+FE0F"),
    "a heap of marks": ("a" + "\u0301" * 400, "392 more marks"),
}


@pytest.mark.parametrize(("text", "shown"), HIDDEN.values(), ids=HIDDEN)
def test_what_is_not_seen_is_spelled_out_in_little_room(text: str, shown: str):
    (html,) = rendered(text)
    assert shown in html
    assert len(html) < 2_000


@pytest.mark.parametrize(
    "text", ["❤\ufe0f", "1\ufe0f\u20e3", "©\ufe0f", "▶\ufe0f", "❤\ufe0f\u200d🔥"]
)
def test_an_emoji_stays_one(text: str):
    assert rendered(text) == (f"<p>{text}</p>\n",)
