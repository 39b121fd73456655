"""Keeps every voucher in memory."""

from shop.models.voucher import make_voucher

_known = {}


def add_voucher(key, record):
    _known[key] = make_voucher(record)
    return _known[key]


def find_voucher(key):
    return _known.get(key)


def all_by_code():
    return sorted(_known.values(), key=lambda each: str(each.code))
