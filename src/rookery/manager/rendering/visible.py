"""Text as HTML in which nothing is hidden: what one would not see, or what reorders what one
sees, is spelled out and marked with the class `unseen`."""

import re
from html import escape

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f"
_INVISIBLE = (
    r"\x80-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_EMOJI = r"\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff"
_JOINER = rf"(?<![{_EMOJI}\ufe0f])\u200d|\u200d(?![{_EMOJI}])"
"""Between two emoji it makes one of them, and hides nothing."""
_UNSEEN = re.compile(f"[{_CONTROLS}{_INVISIBLE}]|{_JOINER}")
LONGEST_RUN = 500
"""Characters without a blank before a line may be broken; a browser freezes at very long ones."""
_LONG_RUN = re.compile(rf"(\S{{{LONGEST_RUN}}})")
_UNSEEN_IN_ASCII = re.compile(f"[{_CONTROLS}]")


def marked(html: str) -> str:
    """HTML whose tags hold none of these characters, with those in its text spelled out."""
    return (_UNSEEN_IN_ASCII if html.isascii() else _UNSEEN).sub(_spelled, html)


def plain(text: str) -> str:
    """Text as HTML that shows just this."""
    parts = _LONG_RUN.split(text) if len(text) > LONGEST_RUN else [text]
    # what is split at stands between the rest
    said = (marked(escape(part)) + "<wbr>" * (place % 2) for place, part in enumerate(parts))
    return "".join(said)


def _spelled(found: re.Match[str]) -> str:
    return f'<span class="unseen">U+{ord(found[0]):04X}</span>'
