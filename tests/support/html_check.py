"""Check HTML with an independent parser, as a browser would read it."""

from html.parser import HTMLParser

TAGS = {
    *("a", "blockquote", "br", "code", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol"),
    "wbr",
    *("p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
ATTRIBUTES = {
    "a": {"href", "rel", "target"},
    "ol": {"start"},
    "span": {"class"},
    "pre": {"class"},
    "code": {"class"},
    "td": {"class"},
    "th": {"class"},
}


class Looked(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "hr", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")


def looked_at(html: str) -> Looked:
    """Parse the HTML; fails if it contains anything that is not allowed."""
    looked = Looked(html)
    assert looked.open == []
    for tag, attributes in looked.tags:
        assert tag in TAGS, tag
        assert set(attributes) <= ATTRIBUTES.get(tag, set()), (tag, attributes)
        if tag == "a" and "href" in attributes:
            href = str(attributes["href"])
            assert href.split(":")[0] in ("http", "https", "mailto"), href
            assert attributes["rel"] == "noopener noreferrer"
            assert attributes["target"] == "_blank"
    return looked
