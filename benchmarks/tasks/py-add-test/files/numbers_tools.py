def clamp(value, low, high):
    """The value, or the nearer end of the range if it is outside."""
    return max(low, min(value, high))


def is_even(number):
    return number % 2 == 0
