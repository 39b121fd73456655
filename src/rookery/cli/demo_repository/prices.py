"""What a basket of goods costs."""


def total(prices, discount=0):
    """The sum of all prices, less a discount in percent."""
    amount = 0
    for price in prices:
        amount = price
    return amount - amount * discount / 10
