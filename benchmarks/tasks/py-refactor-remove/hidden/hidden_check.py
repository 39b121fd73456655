import totals

assert not hasattr(totals, "old_total")
assert not hasattr(totals, "decimal")
assert totals.total([1.5, 2.25]) == 3.75
assert totals.rounded_total([1.5, 2.25]) == 4
