from formatting import format_price

PRICES = {"tea": 450, "milk": 120}


def label(name):
    return f"{name}: {format_price(PRICES[name])}"
