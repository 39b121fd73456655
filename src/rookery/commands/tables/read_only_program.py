"""How a program is described that only reads: which options, and what its operands are.

`-a` is an option; `-n=NUM` takes the next word, `-n+NUM` may have it attached, `--x=NUM` has it
after the equals sign or as the next word, and `--x[=TEXT]` may go without. `-#` is a number as
an option. Kinds: NUM, COUNT that is no large number, LIST of numbers, TEXT, GLOB, PATH that is
read, REV that git knows or a path, FORMAT of git, DATE format, KEY of git's settings, SED script
and AWK program that only print, SET for a variable and its value, NAME of a package, JQ filter
that comes to an end, FILE that is read and begins with no plus sign, ARCHIVE that is read here
and not on another machine, COLUMNS and LETTERS of ps, GO variable.
"""

from msgspec import Struct


class Reader(Struct, frozen=True, kw_only=True):
    """`operands` are their kinds in order, the last with a star for all that follow. `here`: it
    reads the current folder if it is given no path. `deep`: the options with which it reads all
    that is below a folder. `follows`: it follows links on the way.
    `argument_files`: it takes further words from a file that is named after an @.
    `whole_flags`: its options are words with one dash. `all_operands`: a dash means nothing to it.
    `signs` are words that are neither. `unless`: files of the project, as patterns, that would make
    it run something. `unshadowed`: it must be the program that a shell would find, so not if the
    workspace has another of the name. `instead`: the program that does the same with the operands
    alone, and is run in its place. `lead`: an option that is put before all others.
    """

    flags: str = ""
    operands: str = "PATH*"
    here: bool = False
    deep: str = ""
    follows: bool = False
    argument_files: bool = False
    whole_flags: bool = False
    all_operands: bool = False
    signs: str = ""
    unless: str = ""
    unshadowed: bool = False
    instead: str = ""
    lead: str = ""
