import json

with open("products.json", encoding="utf-8") as file:
    products = json.load(file)
assert products == [
    {"name": "tea", "price": 4.5, "stock": 12},
    {"name": "milk", "price": 1.2, "stock": 30},
    {"name": "bread", "price": 3, "stock": 7},
], products
