"""Keeps every supplier in memory."""

from shop.models.supplier import make_supplier

_known = {}


def add_supplier(key, record):
    _known[key] = make_supplier(record)
    return _known[key]


def find_supplier(key):
    return _known.get(key)


def all_by_name():
    return sorted(_known.values(), key=lambda each: str(each.name))
