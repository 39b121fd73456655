def apply_discount(amount):
    if amount > 1000:
        return amount * 0.9
    if amount > 500:
        return amount * 0.95
    return amount


def invoice_total(prices):
    return round(apply_discount(sum(prices)), 2)


def quote_total(prices, shipping):
    return round(apply_discount(sum(prices)) + shipping, 2)
