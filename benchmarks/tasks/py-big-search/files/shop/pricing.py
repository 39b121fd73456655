"""Prices with tax and discounts. Amounts are in cents."""

TAX_PERCENT = 19


def with_tax(amount):
    return amount + amount * TAX_PERCENT // 100


def with_voucher(amount, percent):
    """The amount after a voucher of so many percent."""
    return amount - amount * percent


def cheapest(amounts):
    return min(amounts, default=0)
