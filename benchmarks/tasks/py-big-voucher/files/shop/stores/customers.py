"""Keeps every customer in memory."""

from shop.models.customer import make_customer

_known = {}


def add_customer(key, record):
    _known[key] = make_customer(record)
    return _known[key]


def find_customer(key):
    return _known.get(key)


def all_by_name():
    return sorted(_known.values(), key=lambda each: str(each.name))
