"""Keeps every parcel in memory."""

from shop.models.parcel import make_parcel

_known = {}


def add_parcel(key, record):
    _known[key] = make_parcel(record)
    return _known[key]


def find_parcel(key):
    return _known.get(key)


def all_by_code():
    return sorted(_known.values(), key=lambda each: str(each.code))


def parse_weight(text):
    """Grams from texts such as 250g and 1.5kg."""
    if text.endswith("kg"):
        return round(float(text[:-2]) * 1000)
    return int(text.removesuffix("g"))
