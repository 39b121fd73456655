def average(numbers):
    if not numbers:
        return 0.0
    return sum(numbers) / len(numbers)


def report(name, numbers):
    return f"{name}: {average(numbers):.1f} ({len(numbers)} values)"
