"""Draws rows of a benchmark as bars in an SVG file."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from msgspec import Struct

WIDTH, LEFT, ROW, TOP = 720, 270, 26, 44
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.note{fill:#57606a;font-size:11px}"
    ".ours{fill:#2f81f7}.limit{stroke:#d1242f;stroke-dasharray:3 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}}"
)


class Bar(Struct, frozen=True):
    label: str
    value: float
    text: str
    limit: float = 0.0
    """Where it should end, if that is known."""


def draw(path: Path, title: str, note: str, bars: Sequence[Bar]) -> None:
    """Write the file; bars start at 0, and the longest fills the width."""
    room = WIDTH - LEFT - 110
    most = max(max(bar.value, bar.limit) for bar in bars)
    height = TOP + ROW * len(bars) + 24
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text x="0" y="18" font-weight="600">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        y, long = TOP + ROW * number, room * bar.value / most
        rows += [
            f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="ours" x="{LEFT}" y="{y}" width="{long:.1f}" height="18" rx="2"/>',
            f'<text x="{LEFT + long + 6:.1f}" y="{y + 13}">{escape(bar.text)}</text>',
        ]
        if bar.limit:
            x = LEFT + room * bar.limit / most
            rows.append(f'<path class="limit" d="M{x:.1f} {y - 3}v24"/>')
    rows += [f'<text class="note" x="0" y="{height - 6}">{escape(note)}</text>', "</svg>"]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
