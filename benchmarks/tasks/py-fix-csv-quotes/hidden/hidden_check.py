from table import column, rows

assert rows('1,"Smith, John",London\n2,Ada,Paris\n') == [["1", "Smith, John", "London"], ["2", "Ada", "Paris"]]
assert rows("") == []
assert rows("a,b\n\nc,d\n") == [["a", "b"], ["c", "d"]]
assert column('1,"x, y"\n2,z\n', 1) == ["x, y", "z"]
