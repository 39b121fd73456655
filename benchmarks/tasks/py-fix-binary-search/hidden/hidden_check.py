from search import contains, find

for size in range(8):
    values = [2 * number for number in range(size)]
    for index, value in enumerate(values):
        assert find(values, value) == index, (values, value)
        assert find(values, value + 1) == -1
    assert find(values, -1) == -1
assert contains([1, 3, 5], 5)
assert not contains([], 5)
