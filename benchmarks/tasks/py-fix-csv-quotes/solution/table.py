import csv


def rows(text):
    """The rows of a CSV text, each a list of strings."""
    return [row for row in csv.reader(text.splitlines()) if row]


def column(text, number):
    return [row[number] for row in rows(text)]
