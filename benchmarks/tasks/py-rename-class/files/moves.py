from vectors import Vec

STEPS = {"up": Vec(0, 1), "down": Vec(0, -1), "left": Vec(-1, 0), "right": Vec(1, 0)}


def walk(start, names):
    place = start
    for name in names:
        place = place + STEPS[name]
    return place
