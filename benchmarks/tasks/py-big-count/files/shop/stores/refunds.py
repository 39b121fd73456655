"""Keeps every refund in memory."""

from shop.models.refund import make_refund

_known = {}


def add_refund(key, record):
    _known[key] = make_refund(record)
    return _known[key]


def find_refund(key):
    return _known.get(key)


def all_by_number():
    return sorted(_known.values(), key=lambda each: str(each.number))


# TODO: handle missing values
