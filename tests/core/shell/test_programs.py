"""The table of programs: that it says what it seems to say."""

import pytest

from rookery.core.shell.changers import changing
from rookery.core.shell.program_table import READERS
from rookery.core.shell.programs import reading
from rookery.core.shell.shell_words import has_braces, spellings, words

NEVER = {
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -L -follow",
    "sort": "-o --output -T --compress-program --files0-from",
    "rg": "--pre --hostname-bin -z --search-zip -f --file -L --follow --ignore-file -u",
    "tree": "-o -R -l --fromfile",
    "tail": "-f -F --follow --pid --retry",
    "date": "-s --set -f --file",
    "git log": "--output --ext-diff --textconv --show-signature -O",
    "git diff": "--output --ext-diff --textconv --no-index",
    "git show": "--output --ext-diff --textconv",
    "git grep": "-O --open-files-in-pager --no-index --textconv --ext-grep",
    "git branch": "-d -D -m -M -c -C -f -u --delete --move --copy --edit-description",
    "git tag": "-d -a -s -f -v --delete --sign",
    "jq": "-f --from-file -L --slurpfile --rawfile --argfile -n --null-input",
    "file": "-C -m -f -z",
    "grep": "-f --file -R --dereference-recursive",
    "sed -n": "-i -f -e -s --in-place --file",
    "md5sum": "-c --check",
}


@pytest.mark.parametrize("name", NEVER)
def test_CMD_4_K2_options_that_write_or_execute_are_in_no_row(name: str):
    for flag in NEVER[name].split():
        for value in ([], ["x"], ["x", "y"]):
            read = reading(words([*name.split(), flag, *value]))
            assert not read.reads_only, flag


@pytest.mark.parametrize("name", READERS)
def test_CMD_4_every_row_refuses_what_it_does_not_list(name: str):
    if READERS[name].all_operands:
        return
    for odd in ("--frobnicate", "--frobnicate=x", "-\x01"):
        assert not reading(words([*name.split(), odd])).reads_only


@pytest.mark.parametrize("name", READERS)
def test_CMD_1_no_row_is_a_program_that_runs_the_projects_code(name: str):
    program = name.split()[0]
    runners = {
        "npm",
        "npx",
        "make",
        "python",
        "node",
        "pytest",
        "cargo",
        "go",
        "env",
        "xargs",
        "sh",
    }
    assert program not in runners
    assert changing(words([program])) is None or program in {"git", "find", "sed"}


def test_braces_are_spelled_out_up_to_a_bound():
    assert spellings("a{b,c}d") == ["abd", "acd"]
    assert spellings("{a,b}{c,d}") == ["ac", "ad", "bc", "bd"]
    assert spellings("plain") == ["plain"]
    many = "{a,b}" * 12
    assert spellings(many) == [many]
    assert has_braces(many)


def test_ranges_in_braces_are_spelled_out_and_quoted_braces_are_not():
    assert spellings("a{b..d}") == ["ab", "ac", "ad"]
    assert spellings("{2..1}") == ["2", "1"]
    assert spellings("[{a,b}]") == ["[a]", "[b]"]
    assert spellings("[{]a,b}") == ["[{]a,b}"]
    assert not has_braces("[{]a,b}")
    for left in ("{A..z}", "{1..100000}", "{a..z..2}"):
        assert spellings(left) == [left]
        assert has_braces(left)
