"""A command's words as options, their values, and operands; read generously."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rookery.commands.words import Word


class Split(Struct, frozen=True):
    """`flags` holds every option, clusters of letters also one by one: what may be a value that
    is attached may as well be more options."""

    flags: frozenset[str]
    values: Mapping[str, Word]
    operands: tuple[Word, ...]

    def value(self, *names: str) -> Word | None:
        return next((self.values[name] for name in names if name in self.values), None)

    def letter(self, letter: str) -> bool:
        """Whether a cluster of letters holds this one."""
        return f"-{letter}" in self.flags

    def has(self, *longs: str) -> bool:
        """Whether one of these long options is given, in full or cut short."""
        return any(abbreviates(flag, long) for flag in self.flags for long in longs)


def abbreviates(flag: str, long: str) -> bool:
    return len(flag) > 2 and flag.startswith("--") and long.startswith(flag)


def split(words: Sequence[Word], valued: str = "") -> Split:
    takes_value = set(valued.split())
    flags, values, operands = set[str](), dict[str, Word](), list[Word]()
    waiting = list(reversed(words))
    ended = False
    while waiting:
        word = waiting.pop()
        text = word.text
        if text == "--" and not ended:
            ended = True
        elif ended or text == "-" or not text.startswith("-"):
            operands.append(word)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            flags.add(name)
            meant = [one for one in takes_value if abbreviates(name, one)] or [name]
            if equals:
                given = Word(value, word.known, word.pattern.partition("=")[2])
                values |= dict.fromkeys(meant, given)
            elif takes_value & set(meant) and waiting:
                values |= dict.fromkeys(meant, waiting.pop())
        else:
            flags.add(text)
            for place, letter in enumerate(text[1:], start=2):
                flag = f"-{letter}"
                flags.add(flag)
                if flag in takes_value and flag not in values:
                    if text[place:]:
                        values[flag] = Word(text[place:], word.known)
                    elif waiting:
                        values[flag] = waiting.pop()
    return Split(frozenset(flags), values, tuple(operands))
