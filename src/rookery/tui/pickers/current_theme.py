"""The colours that a widget is drawn with: those of the theme that the app wears now."""

from textual.widget import Widget

from rookery.tui.theme import DARK, LOOKS, Look


def worn(widget: Widget) -> Look:
    return LOOKS.get(widget.app.theme, LOOKS[DARK])
