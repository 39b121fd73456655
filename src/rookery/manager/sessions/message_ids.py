"""How the engine knows the user's words that come from here: by the number of their letter."""

_BEGINNING = "manager-"


def message_id_of(number: int) -> str:
    return f"{_BEGINNING}{number}"


def number_of(message_id: str) -> int | None:
    """None if the words came from elsewhere."""
    digits = message_id.removeprefix(_BEGINNING)
    ours = message_id.startswith(_BEGINNING) and digits.isascii() and digits.isdecimal()
    return int(digits) if ours and len(digits) < 10 else None
