def invoice_total(prices):
    amount = sum(prices)
    if amount > 1000:
        amount = amount * 0.9
    elif amount > 500:
        amount = amount * 0.95
    return round(amount, 2)


def quote_total(prices, shipping):
    amount = sum(prices)
    if amount > 1000:
        amount = amount * 0.9
    elif amount > 500:
        amount = amount * 0.95
    return round(amount + shipping, 2)
