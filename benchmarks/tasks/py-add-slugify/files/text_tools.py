def shorten(text, length):
    if len(text) <= length:
        return text
    return text[: length - 3] + "..."


def initials(name):
    return "".join(word[0].upper() for word in name.split())
