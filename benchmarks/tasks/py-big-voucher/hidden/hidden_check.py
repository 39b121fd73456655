from shop.dates import due_day
from shop.pricing import TAX_PERCENT, cheapest, with_tax, with_voucher
from shop.stores.customers import add_customer, find_customer

assert with_voucher(2000, 10) == 1800
assert with_voucher(500, 0) == 500
assert with_voucher(500, 100) == 0
assert with_tax(100) == 119 and TAX_PERCENT == 19
assert cheapest([]) == 0 and cheapest([3, 2]) == 2
assert due_day(3) == 17
add_customer(1, {"name": "Ada", "email": "a@b", "city": "Paris"})
assert find_customer(1).label() == "Ada (a@b)"
