"""Markdown and code as HTML: output, safety and cost."""

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.message import Message
from rookery.manager.rendering import markdown_html as markdown
from rookery.manager.rendering import safe_html as code
from rookery.manager.rendering.markdown_html import (
    LONGEST_TEXT,
    MOST_ADDRESSES,
    BlockScanner,
    GrowingHtml,
    rendered,
    units,
)
from rookery.manager.rendering.safe_html import LANGUAGES, lines_of
from rookery.manager.rendering.session_rows import markdown_of
from support.html_check import looked_at

EXAMPLES = 500 if os.environ.get("ROOKERY_TORTURE") else 60
"""What they are drawn from is small."""


def html(text: str) -> str:
    return "".join(rendered(text))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("# Head", "<h1>Head</h1>"),
        ("a *b* **c** ~~d~~ `e`", "a <em>b</em> <strong>c</strong> <s>d</s> <code>e</code>"),
        ("- a\n- b", "<li>a</li>"),
        ("3. a", '<ol start="3">'),
        ("> q", "<blockquote>"),
        ("| a |\n|:-:|\n| b |", '<td class="center">b</td>'),
        ("```python\nx = 1\n```", '<pre class="code"><code class="language-python">'),
        ("```python\nx = 1\n```", '<span class="mi">1</span>'),
        ("```moonrise\nx < 1\n```", '<pre class="code"><code>x &lt; 1\n</code></pre>'),
        ("    x < 1", '<pre class="code"><code>x &lt; 1\n</code></pre>'),
        ("[a](https://x.y/z)", '>a</a><span class="host"> (x.y)</span>'),
        ("<https://x.y/z>", ">https://x.y/z</a></p>"),
        ("<a@b.co>", ">a@b.co</a></p>"),
        ("[x.y](https://evil.org)", '>x.y</a><span class="host"> (evil.org)</span>'),
        ("[a](https://x.y@evil.org/)", "(evil.org)"),
        ("<https://x.y@evil.org>", '<span class="host"> (evil.org)</span>'),
        ("![a cat](https://x.y/z.png)", '<span class="picture">a cat (https://x.y/z.png)</span>'),
    ],
)
def test_markdown_is_rendered(text: str, part: str):
    assert part in html(text)
    looked_at(html(text))


HOSTILE = [
    "<script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<img src=x onerror=alert(1)>",
    "<style>*{background:url(//x)}</style>",
    "<p style='color:red'>x</p>",
    "<iframe src=//x></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<!-- a --><!DOCTYPE html><?php x ?>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](//evil.org)",
    "[x](/etc/passwd)",
    "[x](mailto:)",
    "[x](http:other.example)",
    "[x](http:/other.example)",
    "[x](https:///other.example)",
    f"[x](https://good.example.{'a' * 300}.evil.example)",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "![x](https://x/y.png 'a\" onerror=\"alert(1)')",
    '[x](https://x/"onmouseover="alert(1))',
    "[x](https://x 'a\" onmouseover=\"alert(1)')",
    "[a]: javascript:alert(1)\n\n[a]",
    '```"><script>alert(1)</script>\nx\n```',
    "```html\n<script>alert(1)</script>\n```",
    "``` onload=alert(1) class=x\nx\n```",
    "`<script>`",
    "| <script> |\n|-|\n| <img src=x onerror=y> |",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\\<script>",
    "<scr<script>ipt>alert(1)</script>",
    "<a\x00b>\x00",
    "\ud800 [x](https://\udfff)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_active_content_is_removed(text: str):
    looked = looked_at(html(text))
    shown = {tag for tag, _ in looked.tags}
    assert not {"script", "img", "svg", "style", "iframe"} & shown
    if text.startswith("[x](http"):
        assert ("a" in shown) is ("://x" in text), "an address without a host is not a link"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("a\u202eb", "U+202E"),
        ("a\u2066b", "U+2066"),
        ("a\u200bb", "U+200B"),
        ("a\x1b[31mb", "U+001B"),
        ("a\x07b", "U+0007"),
        ("a\x9bb", "U+009B"),
        ("a\U000e0041b", "U+E0041"),
        ("a\ufeffb", "U+FEFF"),
        ("a\u200db", "U+200D"),
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "`{}`", "```\n{}\n```", "```python\n{}\n```", "[{}](http://x)"]
)
def test_invisible_characters_are_spelled_out(text: str, spelled: str, around: str):
    looked = looked_at(html(around.format(text)))
    assert f"a{spelled}" in looked.text
    assert text not in looked.text
    assert ("span", {"class": "unseen"}) in looked.tags
    assert spelled in lines_of("a.py", text)[0]


@pytest.mark.parametrize(
    "text", ["❤\ufe0f", "1\ufe0f\u20e3", "©\ufe0f", "▶\ufe0f", "❤\ufe0f\u200d🔥"]
)
def test_an_emoji_is_kept(text: str):
    assert rendered(text) == (f"<p>{text}</p>\n",)


HIDDEN = {
    "many of one": ("a" + "\u200b" * 9_000 + "b", "U+200B ×500"),
    "a sign for emoji only": ("ad\ufe0fb", "U+FE0F"),
    "a heap of marks": ("a" + "\u0301" * 400, "392 more marks"),
}


@pytest.mark.parametrize(("text", "shown"), HIDDEN.values(), ids=HIDDEN)
def test_long_runs_of_invisible_characters_are_shortened(text: str, shown: str):
    (block,) = rendered(text)
    assert shown in block
    assert len(block) < 2_000


LONG = "https://x.example/" + "y" * 20_000


@pytest.mark.parametrize("use", ["[a]", "![a]", "[b][a]"], ids=["link", "picture", "named link"])
def test_a_long_address_is_repeated_only_a_few_times(use: str):
    assert len(html(f"[a]: {LONG}\n\n" + f"{use}\n" * 2_000)) < 4 * MOST_ADDRESSES
    few = html(f"[a]: {LONG}\n\n" + f"{use}\n" * 5)
    assert few.count(f'href="{LONG}"') == (0 if use == "![a]" else 5)


def test_a_text_that_renders_slowly_ends_as_plain_text(monkeypatch: pytest.MonkeyPatch):
    """Each block takes more than its share of the time."""
    monkeypatch.setattr(markdown, "SECONDS_TO_RENDER", 0.01)
    wide = "|" + "a|" * 400 + "\n|" + "-|" * 400 + "\n" + "a\n" * 40
    begin = time.thread_time()
    blocks = rendered(f"{wide}\n" * 5 + "The *end*")
    assert "*end*" in blocks[-1]
    assert 0.01 < time.thread_time() - begin < 4
    assert sum("<table>" in block for block in blocks) < 5


WORDS = st.sampled_from(
    [
        *("word", " ", "\n", "\n\n", "  ", "    ", "\t", "- ", "* ", "1. ", "2) ", "> ", "# ", "#"),
        *("```", "```py\n", "~~~", "`", "*", "**", "_", "~~", "[", "](", ")", "](https://a.b)"),
        *("![", "|", "|-|", "---", "===", "<", ">", "<b>", "</b>", "<script>", "&", "&lt;"),
        *("\\", '"', "'", "é", "\U0001f600", "\r", "\r\n", "\u202e", "\x00"),
        *("javascript:x", "x](javascript:x)"),
    ]
)
TEXTS = st.lists(WORDS, max_size=40).map("".join)
LINES = st.sampled_from(
    [
        *("", "", "word", "more words", "- a", "* b", "1. c", "10. d", "-", "  - e", "   - f"),
        *("  word", "   word", "    word", "\tword", "```", "```py", " ```", "  ```", "   ```"),
        *("    ```", "~~~", "  ~~~", "# head", "> quote", "> - a", "---", "===", "|a|", "|-|"),
        *("- ```", "- # head", "-\tword", "1)  word", "  > quote", "\\"),
    ]
)
DOCUMENTS = st.lists(LINES, max_size=14).map("\n".join)


@given(TEXTS | st.text(max_size=80))
@settings(max_examples=EXAMPLES)
def test_any_input_gives_only_allowed_markup(text: str):
    looked_at(html(text))
    for line in (*lines_of("a.html", text), *lines_of("a.py", text)):
        looked_at(line)


@given(TEXTS | DOCUMENTS, st.lists(st.integers(0, 80), max_size=6))
@settings(max_examples=EXAMPLES)
def test_a_growing_text_renders_like_the_whole(text: str, lengths: list[int]):
    growing = GrowingHtml()
    blocks: list[str] = []
    upto = 0
    for length in sorted(lengths):
        upto = _take(growing, text[:length], blocks, complete=False, upto=upto)
    upto = _take(growing, text, blocks, complete=True, upto=upto)
    assert tuple(blocks) == rendered(text)
    assert upto == (units(text) if text else 0)
    whole = markdown._block(text, {}) if "]:" not in text else "".join(blocks)
    assert "".join(blocks) == whole


def _take(growing: GrowingHtml, text: str, blocks: list[str], *, complete: bool, upto: int) -> int:
    if not (cut := growing.cut(text, complete=complete)):
        return upto
    made = growing.rendered(cut)
    if made.anew:
        blocks.clear()
    blocks += made.blocks
    assert units(text) >= made.upto >= (0 if made.anew else upto)
    return made.upto


def test_a_block_is_rendered_as_soon_as_it_is_certainly_complete():
    growing = GrowingHtml()
    seen: list[tuple[int, int]] = []
    text = "One.\n\nTwo\nlines.\n\n- a\n\n  b\n- c\n\nAfter.\n\n```\ncode\n\nmore\n```\nEnd."
    for length in range(len(text) + 1):
        if cut := growing.cut(text[:length], complete=False):
            seen.append((length, len(growing.rendered(cut).blocks)))
    places = ["One.\n\nT", "lines.\n\n-", "c\n\nA", "After.\n\n`", "more\n```\n"]
    assert seen == [(text.index(place) + len(place), 1) for place in places]


def test_a_replaced_text_is_rendered_again_and_an_overlong_one_is_plain():
    growing = GrowingHtml()
    cut = growing.cut("One.\n\nTwo", complete=False)
    assert cut
    assert growing.rendered(cut).blocks == ("<p>One.</p>\n",)
    cut = growing.cut("Other.\n\nTwo", complete=True)
    assert cut
    made = growing.rendered(cut)
    assert (made.anew, made.blocks) == (True, ("<p>Other.</p>\n", "<p>Two</p>\n"))
    assert growing.cut("Other.\n\nTwo", complete=True) is None
    cut = growing.cut("Other.\n\nTwo" + "x" * LONGEST_TEXT, complete=False)
    assert cut
    assert (growing.rendered(cut).blocks, cut.upto, cut.anew) == ((), 0, True)
    assert growing.cut("Other.\n\nTwo" + "x" * (LONGEST_TEXT + 1), complete=True) is None
    assert rendered("x" * (LONGEST_TEXT + 1)) == ()


def test_reference_links_are_resolved_at_the_end():
    growing = GrowingHtml()
    first = growing.cut("See [a].\n\nMore.", complete=False)
    assert first
    assert "href" not in growing.rendered(first).blocks[0]
    last = growing.cut("See [a].\n\nMore.\n\n[a]: https://x.y", complete=True)
    assert last
    made = growing.rendered(last)
    assert made.anew
    assert 'href="https://x.y"' in made.blocks[0]


N = 30_000
SLOW = {
    "quotes": "> " * N,
    "quotes in lines": "".join(">" * depth + " a\n" for depth in range(250)),
    "brackets": "[" * N,
    "links": "[a](" * (N // 4),
    "deep links": "[" * 5000 + "a" + "](https://u)" * 2000,
    "pictures": "![" * (N // 2),
    "stars": "*a " * (N // 3),
    "ticks": "".join("`" * (n % 200 + 1) + " " for n in range(300)),
    "lists": "".join("  " * depth + "- a\n" for depth in range(150)),
    "lists in a line": "- " * (N // 2),
    "angles": "<a " * (N // 3),
    "one line": "word " * (LONGEST_TEXT // 5),
    "returns": "\r" * N,
    "code": "```c\n" + "\n " * (N // 2) + "\n```",
    "references": "".join(f"[a{n}]: /u\n" for n in range(2000)),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_text_takes_long(name: str):
    begin = time.process_time()
    looked_at(html(SLOW[name]))
    assert time.process_time() - begin < 5


def test_a_growing_text_costs_no_more_than_its_length():
    """Counted, not timed: every part is rendered once, every line scanned once."""
    text = "Some words here.\n\n" * 500
    growing, parts = GrowingHtml(), 0
    for length in range(0, len(text), 7):
        if cut := growing.cut(text[:length], complete=False):
            parts += len(cut.parts)
    assert parts == 499
    scanner = BlockScanner()
    lines = "a\n" * 10_000
    began = time.process_time()
    for length in range(0, len(lines), 20):
        assert list(scanner.cut(lines[:length], complete=False)) == []
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.txt", "", ("",)),
        ("a.txt", "a\n<b>\n", ("a", "&lt;b&gt;", "")),
        ("a.txt", "a\r\nb\rc\n", ("a", "b␍c", "")),
        ("a.py", "\n\nx\n\n", ("", "", '<span class="n">x</span>', "", "")),
        ("Makefile", "a:\n", ('<span class="nf">a</span><span class="o">:</span>', "")),
    ],
)
def test_a_file_is_rendered_line_by_line(path: str, text: str, lines: tuple[str, ...]):
    assert lines_of(path, text) == lines


@given(st.sampled_from(sorted(LANGUAGES)), TEXTS | st.text(max_size=200))
@settings(max_examples=EXAMPLES)
def test_a_file_has_as_many_html_lines_as_text_lines(language: str, text: str):
    lines = lines_of(f"x.{LANGUAGES[language].split()[0]}", text)
    assert len(lines) == len(text.split("\n"))
    for line in lines:
        looked_at(line)


def test_a_text_that_spans_lines_is_closed_in_each():
    first, second = lines_of("a.py", '"""one\ntwo"""')
    assert first == '<span class="sd">&quot;&quot;&quot;one</span>'.replace("&quot;", '"')
    assert second == '<span class="sd">two"""</span>'


def test_long_files_are_plain():
    line = "x = 1\n"
    text = line * (code.MOST_HIGHLIGHTED // len(line) + 1)
    assert set(lines_of("a.py", text)) == {"x = 1", ""}
    (line,) = lines_of("a.py", "x" * (code.LONGEST_LINE + 1))
    assert line.replace("<wbr>", "") == "x" * (code.LONGEST_LINE + 1)


def test_text_without_blanks_can_still_be_wrapped():
    """A browser needs minutes to lay out a hundred thousand characters without a break."""
    (block,) = rendered(f"{'A' * 1200} <b> {'B' * 300}")
    broken = f"{'A' * 500}<wbr>{'A' * 500}<wbr>{'A' * 200}"
    assert block.strip() == f"<p>{broken} &lt;b&gt; {'B' * 300}</p>"


def test_a_reached_limit_is_rendered_as_its_sentence():
    row = Message(
        ts=1,
        type="ask",
        ask="auto_approval_max_req_reached",
        content='{"type": "cost", "count": 1.5}',
    )
    text = markdown_of(row)
    assert text == "This session has reached its limit of $1.50 (max_cost)."
    assert html(text).strip() == f"<p>{text}</p>"
