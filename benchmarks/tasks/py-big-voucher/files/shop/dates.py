"""Due dates, as days since the order."""


def due_day(ordered, days=14):
    return ordered + days


def is_late(today, due):
    return today > due
