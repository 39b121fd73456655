import re


def shorten(text, length):
    if len(text) <= length:
        return text
    return text[: length - 3] + "..."


def initials(name):
    return "".join(word[0].upper() for word in name.split())


def slugify(title):
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
