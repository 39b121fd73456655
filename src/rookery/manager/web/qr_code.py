"""A link as a picture in the terminal, for the camera of a phone."""

from importlib.util import find_spec

_BORDER = 4
"""Modules of white around it, as the standard wants."""
_BLACK_ON_WHITE = "\x1b[38;5;16;48;5;231m"
_AS_BEFORE = "\x1b[0m"
_HALVES = {(0, 0): " ", (0, 1): "▄", (1, 0): "▀", (1, 1): "█"}


def qr_code(link: str) -> str:
    """Two rows of it per line. Its colours are given, so that it is dark on light in any
    terminal; nothing if there is nobody to draw it."""
    if find_spec("segno") is None:
        return ""
    import segno

    rows = [[*row] for row in segno.make_qr(link, error="l").matrix_iter(border=_BORDER)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    lines = [
        "".join(_HALVES[bool(upper), bool(lower)] for upper, lower in zip(*pair, strict=True))
        for pair in zip(rows[::2], rows[1::2], strict=True)
    ]
    return "".join(f"{_BLACK_ON_WHITE}{line}{_AS_BEFORE}\n" for line in lines)
