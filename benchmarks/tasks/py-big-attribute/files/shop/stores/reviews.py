"""Keeps every review in memory."""

from shop.models.review import make_review

_known = {}


def add_review(key, record):
    _known[key] = make_review(record)
    return _known[key]


def find_review(key):
    return _known.get(key)


def all_by_author():
    return sorted(_known.values(), key=lambda each: str(each.author))
