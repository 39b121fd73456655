def rows(text):
    """The rows of a CSV text, each a list of strings."""
    return [line.split(",") for line in text.splitlines() if line]


def column(text, number):
    return [row[number] for row in rows(text)]
