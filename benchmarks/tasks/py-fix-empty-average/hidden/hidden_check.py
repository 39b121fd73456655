from report import average, report

assert average([]) == 0
assert average([1, 2]) == 1.5
assert report("a", []) == "a: 0.0 (0 values)"
assert report("b", [3]) == "b: 3.0 (1 values)"
