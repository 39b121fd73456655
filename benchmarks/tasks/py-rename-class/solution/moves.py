from vectors import Vector

STEPS = {"up": Vector(0, 1), "down": Vector(0, -1), "left": Vector(-1, 0), "right": Vector(1, 0)}


def walk(start, names):
    place = start
    for name in names:
        place = place + STEPS[name]
    return place
