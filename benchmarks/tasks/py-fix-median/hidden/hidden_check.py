from stats import mean, median, spread

assert median([4, 1, 3, 2]) == 2.5
assert median([10, 20]) == 15
assert median([7]) == 7
assert median([9, 1, 5]) == 5
values = [3, 1, 2, 10]
assert median(values) == 2.5
assert values == [3, 1, 2, 10]
assert mean([2, 4]) == 3
assert spread([1, 8]) == 7
