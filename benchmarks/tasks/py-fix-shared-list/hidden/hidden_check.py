from basket import PRICES, Basket

a = Basket()
a.add("tea")
assert Basket().items == []
assert a.items == ["tea"]
b = Basket(["milk"])
b.add("bread")
assert b.total() == 5
assert a.total() == 4
assert PRICES["milk"] == 2
