"""Text as HTML in which nothing is hidden: what one would not see, or what reorders what one
sees, is spelled out and marked with the class `unseen`."""

import re
from html import escape

from rookery.core.text.hidden_characters import EMOJI, INVISIBLE

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f"
_INVISIBLE = "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE)
_JOINED = rf"(?<![{EMOJI}\ufe0f])\u200d|\u200d(?![{EMOJI}])"
"""A joiner that is not between two emoji."""
_MADE_EMOJI = (
    r"#*0-9\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u25aa-\u25fe\u2934\u2935\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f2ff"
)
_EMOJI_ONLY = rf"(?<![{EMOJI}{_MADE_EMOJI}])\ufe0f"
"""What makes an emoji of a sign, behind something that is none."""
_UNSEEN = re.compile(
    rf"(?:((?!\u200d)[{_CONTROLS}\x80-\x9f{_INVISIBLE}])\1*)|{_JOINED}|{_EMOJI_ONLY}"
)
MOST_MARKS = 8
LONGEST_RUN = 500
"""Characters without a blank before a line may be broken; a browser freezes at very long ones."""
_LONG_RUN = re.compile(rf"(\S{{{LONGEST_RUN}}})")
_UNSEEN_IN_ASCII = re.compile(rf"([{_CONTROLS}])\1*")
_MARKS = (
    "\u0300-\u034e\u0350-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_HEAP_OF_MARKS = re.compile(rf"([{_MARKS}]{{{MOST_MARKS}}})([{_MARKS}]+)")
"""On one letter; a browser freezes at very high ones, and they cover what is above them."""


def marked(html: str) -> str:
    """HTML whose tags hold none of these characters, with those in its text spelled out."""
    if html.isascii():
        return _UNSEEN_IN_ASCII.sub(_spelled, html)
    return _HEAP_OF_MARKS.sub(_counted, _UNSEEN.sub(_spelled, html))


def plain(text: str) -> str:
    """Text as HTML that shows just this."""
    parts = _LONG_RUN.split(text) if len(text) > LONGEST_RUN else [text]
    # what is split at stands between the rest
    said = (marked(escape(part)) + "<wbr>" * (place % 2) for place, part in enumerate(parts))
    return "".join(said)


def _spelled(found: re.Match[str]) -> str:
    times = f" ×{len(found[0])}" if len(found[0]) > 1 else ""
    return f'<span class="unseen">U+{ord(found[0][0]):04X}{times}</span>'


def _counted(found: re.Match[str]) -> str:
    return f'{found[1]}<span class="unseen">{len(found[2])} marks more</span>'
