import math


def total(prices):
    return math.fsum(prices)


def rounded_total(prices):
    return math.ceil(total(prices))
