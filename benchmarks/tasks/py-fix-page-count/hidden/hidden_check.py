from paging import items_on_page, page_count, page_of

assert page_count(10, 5) == 2
assert page_count(11, 5) == 3
assert page_count(1, 5) == 1
assert page_count(5, 5) == 1
assert page_count(0, 5) == 0 or page_count(0, 5) == 1
assert page_of(4, 5) == 1
assert page_of(5, 5) == 2
assert items_on_page(list(range(12)), 3, 5) == [10, 11]
