PRICES = {"tea": 450, "milk": 120}


def format_price(cents):
    return f"{cents // 100}.{cents % 100:02} EUR"


def label(name):
    return f"{name}: {format_price(PRICES[name])}"
