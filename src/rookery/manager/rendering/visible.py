"""Text as HTML in which nothing is hidden: what one would not see, or what reorders what one
sees, is spelled out and marked with the class `unseen`."""

import re
from html import escape

from rookery.core.invisible import EMOJI, INVISIBLE

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f"
_INVISIBLE = "".join(f"{chr(first)}-{chr(last)}" for first, last in INVISIBLE)
_JOINED = rf"(?<![{EMOJI}\ufe0f])\u200d|\u200d(?![{EMOJI}])"
"""A joiner that is not between two emoji."""
_UNSEEN = re.compile(rf"(?!\u200d)[{_CONTROLS}\x80-\x9f{_INVISIBLE}]|{_JOINED}")
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
