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
