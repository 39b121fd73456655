import vectors
from moves import STEPS, walk
from vectors import Vector

assert not hasattr(vectors, "Vec")
assert Vector(1, 2) + Vector(3, 4) == Vector(4, 6)
assert Vector(1, 2) != (1, 2)
assert walk(Vector(0, 0), ["up", "up", "right"]) == Vector(1, 2)
assert len(STEPS) == 4
