import decimal
import math


def total(prices):
    return math.fsum(prices)


def old_total(prices):
    result = decimal.Decimal(0)
    for price in prices:
        result += decimal.Decimal(str(price))
    return float(result)


def rounded_total(prices):
    return math.ceil(total(prices))
