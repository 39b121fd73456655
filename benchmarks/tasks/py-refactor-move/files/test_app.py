from app import label

assert label("tea") == "tea: 4.50 EUR"
assert label("milk") == "milk: 1.20 EUR"
print("ok")
