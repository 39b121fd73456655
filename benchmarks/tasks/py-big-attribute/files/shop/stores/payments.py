"""Keeps every payment in memory."""

from shop.models.payment import make_payment

_known = {}


def add_payment(key, record):
    _known[key] = make_payment(record)
    return _known[key]


def find_payment(key):
    return _known.get(key)


def all_by_method():
    return sorted(_known.values(), key=lambda each: str(each.method))
