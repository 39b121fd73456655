PRICES = {"tea": 4, "milk": 2, "bread": 3}


class Basket:
    def __init__(self, items=[]):
        self.items = items

    def add(self, name):
        self.items.append(name)

    def total(self):
        return sum(PRICES[name] for name in self.items)
