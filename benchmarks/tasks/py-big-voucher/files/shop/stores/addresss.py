"""Keeps every address in memory."""

from shop.models.address import make_address

_known = {}


def add_address(key, record):
    _known[key] = make_address(record)
    return _known[key]


def find_address(key):
    return _known.get(key)


def all_by_street():
    return sorted(_known.values(), key=lambda each: str(each.street))
