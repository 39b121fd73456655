"""The only HTML that leaves the server: whatever made it, it goes through here."""

from functools import cache
from typing import TYPE_CHECKING

from rookery.manager.rendering.code_languages import LANGUAGES

if TYPE_CHECKING:
    import nh3

TAGS = frozenset(
    (
        *("a", "code", "em", "s", "span", "strong", "br", "wbr"),
        *("blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"),
        *("table", "tbody", "td", "th", "thead", "tr"),
    )
)
ATTRIBUTES = {"a": frozenset(("href",)), "ol": frozenset(("start",))}
SCHEMES = frozenset(("http", "https", "mailto"))
ALIGNMENTS = frozenset(("left", "center", "right"))
OUR_CLASSES = frozenset(("host", "picture", "unseen"))
"""Of a span: where a link leads, a picture that is not shown, a character that is not seen."""
CODE = "code"
"""Of what is highlighted, with classes as pygments names them."""


def sanitised(html: str) -> str:
    return _cleaner().clean(html)


@cache
def classes() -> dict[str, frozenset[str]]:
    """Those that each tag may have."""
    from pygments.token import STANDARD_TYPES

    return {
        "span": OUR_CLASSES | frozenset(filter(None, STANDARD_TYPES.values())),
        "pre": frozenset((CODE,)),
        "code": frozenset(f"language-{name}" for name in LANGUAGES),
        "td": ALIGNMENTS,
        "th": ALIGNMENTS,
    }


@cache
def _cleaner() -> "nh3.Cleaner":
    import nh3

    return nh3.Cleaner(
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        allowed_classes={tag: set(names) for tag, names in classes().items()},
        url_schemes=set(SCHEMES),
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        strip_comments=True,
    )
