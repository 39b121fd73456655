"""Characters that look like plain ones and are others."""

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        "\u2026": "...",
    }
)


def plain_punctuation(text: str) -> str:
    """The text with typewriter quotes, dashes, dots and spaces."""
    return text if text.isascii() else text.translate(_PLAIN)
