"""HTML as readable text: what is kept, what is left out, and pages that are hardly HTML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.web.html_text import html_text

URL = "https://docs.example/guide/start"

KEPT = {
    "headings": ("<h1>One</h1><h3>Two <em>b</em></h3>", "# One\n\n### Two b"),
    "permalink": ('<h2>Use<a href="#use">¶</a></h2>', "## Use"),
    "paragraphs": ("<p>One<p>Two<div>Three</div>", "One\n\nTwo\n\nThree"),
    "space": ("<p>  a \n  b&nbsp;c  </p>", "a b c"),
    "line break": ("one<br>two", "one\ntwo"),
    "entities": ("<p>&lt;b&gt; &amp; &#x41; &copy &nosuch;</p>", "<b> & A © &nosuch;"),
    "link": ('<a href="../a?x=1&amp;y=2">A</a>', "[A](https://docs.example/a?x=1&y=2)"),
    "link without target": ('<a href="javascript:x()">A</a> <a>B</a>', "A B"),
    "link around blocks": (
        "<a href=/x><h3>T</h3><p>d</p></a> <p>e",
        "### [T](https://docs.example/x)\n\n[d](https://docs.example/x)\n\ne",
    ),
    "base": ('<base href="https://b.example/"><a href=x>A</a>', "[A](https://b.example/x)"),
    "image": ('<img alt="A  map" src=m.png><img src=n.png>', "[image: A map]"),
    "code": ("<p>Run <code> a  b </code>.", "Run `a b` ."),
    "list": ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d"),
    "numbers": ("<ol start=3><li>a</li><li><p>b</p><p>c</ol>", "3. a\n4. b\n  c"),
    "block of code": (
        '<pre class="language-py"><span>def</span> f():\n    x\n\n</pre>',
        "```py\ndef f():\n    x\n```",
    ),
    "language of a wrapper": (
        '<div class="highlight-rust"><pre>a\n</pre></div><pre>b</pre>',
        "```rust\na\n```\n\n```\nb\n```",
    ),
    "fence in code": ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    "table": (
        "<table><tr><th>A<th>B<tr><td>1|2<td><p>x</p><p>y</p></table>",
        "| A | B |\n| --- | --- |\n| 1\\|2 | x y |",
    ),
    "layout table": ("<table><tr><td>a</td></tr><tr><td>b</table>", "a\n\nb"),
    "quotation": ("<blockquote>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
    "rule": ("a<hr>b", "a\n\n---\n\nb"),
}


@pytest.mark.parametrize(("page", "text"), KEPT.values(), ids=KEPT)
def test_what_is_kept(page: str, text: str):
    assert html_text(page, URL).text == text


LEFT_OUT = """
<script>x</script>
<script>x</SCRIPT >
<style>x</style>
<!-- x -->
<!--><b></b>
<?x?>
<!DOCTYPE x>
<template>x</template>
<p hidden>x</p>
<p hidden>x<p>
<b aria-hidden=true>x</b>
<p style="color:red;DISPLAY: none">x</p>
<i style="opacity:0">x</i>
<i style="font-size:0px">x</i>
<svg><title>x</title></svg>
<button>x</button>
<textarea><b>x</textarea>
<select><option>x</select>
<iframe>x</iframe>
<noscript>x</noscript>
"""


@pytest.mark.parametrize("part", LEFT_OUT.strip().split("\n"))
def test_invisible_text_is_left_out(part: str):
    page = f"<p>before</p>{part}<p>after</p>"
    assert html_text(page, URL).text == "before\n\nafter"


def test_only_the_main_part_of_a_page_is_read():
    words = "word " * 60
    page = f"<title> A\nB </title><nav>menu</nav><div>around</div><main><p>{words}</main><p>more"
    found = html_text(page, URL)
    assert (found.title, found.text) == ("A B", words.strip())
    by_role = f'<div role="navigation">menu</div><div role="main">{words}</div><p>more'
    assert html_text(by_role, URL).text == words.strip()
    article = f"<div>around</div><article>{words}</article><aside>beside</aside>"
    assert html_text(article, URL).text == words.strip()


def test_a_page_that_is_only_navigation_is_shown():
    page = "<nav><ul><li><a href=/a>A</a><li>B</ul></nav>"
    assert html_text(page, URL).text == "- [A](https://docs.example/a)\n- B"


MANY = 25_000
HORRORS = {
    "open comments": "<!--" * MANY,
    "open tags": "<a " * MANY,
    "open quotes": '<a href="' * MANY,
    "quotes in quotes": "<a b='" + '"<' * MANY,
    "bare brackets": "<" * MANY,
    "end tags": "</div>" * MANY,
    "end tags of open elements": "<b><div>" * 200 + "</b>" * MANY,
    "deep blocks": "<div>" * MANY + "x",
    "deep lists": "<ul><li>" * MANY + "x",
    "deep quotes": "<blockquote>" * MANY + "x",
    "deep inline": "<b>" * MANY + "<p>x" * MANY,
    "deep tables": "<table><tr><td>" * MANY + "x",
    "nested code": "<code>x" * MANY,
    "nested links": "<a href=/x>x" * MANY,
    "attributes": "<p " + "a=1 " * MANY + ">x",
    "scripts": "<script>" * MANY,
    "scripts that do not end": "<script></scrip" * MANY,
    "ampersands": "&#" * MANY + "&" * MANY,
    "empty cells": "<table>" + "<tr><td>" * MANY,
    "wide table": "<table><tr>" + "<td>x" * MANY,
    "blanks": "<p>" + " " * MANY + "x" + "\n" * MANY,
    "breaks": "<br>" * MANY + "x",
    "zero bytes": "\0<p\0>x" * 100,
    "link that grows": f"<base href=https://a.example/{'b' * 300}/>" + "<a href=x>y</a>" * MANY,
}


@pytest.mark.parametrize("page", HORRORS.values(), ids=HORRORS)
def test_a_hostile_page_is_read_in_linear_time_and_space(page: str):
    """With work or memory that grows with the square of the page, this would take minutes."""
    assert len(html_text(page, URL).text) <= 30 * len(page) + 1000


NAMES = "p div ul ol li table tr td th pre code a b h2 blockquote script main br img title"
TAGS = NAMES.split()
PIECES = st.one_of(
    st.sampled_from([f"<{tag}>" for tag in TAGS] + [f"</{tag}>" for tag in TAGS]),
    st.sampled_from(["<a href='/x'>", "<p hidden>", "<!--", "-->", "<", ">", "&amp;", "\n", '"']),
    st.text(max_size=5),
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_tags_in_any_order_give_a_text(page: str):
    found = html_text(page, URL)
    assert found.text == found.text.strip("\n")
