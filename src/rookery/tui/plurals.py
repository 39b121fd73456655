"""Numbers with what they count."""


def counted(count: int, noun: str) -> str:
    """One line, two lines."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
