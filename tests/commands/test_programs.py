"""The table of programs, read as its author meant it."""

import msgspec
import pytest

from rookery.commands.changers import changing
from rookery.commands.program_tables import Reader, readers
from rookery.commands.programs import reading
from rookery.commands.words import has_braces, spellings, words
from support.each_row import each_row

SOMETIMES_CHANGING = {
    *("git", "find", "sed", "awk", "gawk", "base64", "xxd", "shuf", "unzip", "dpkg", "hostname"),
    *("less", "more", "tar", "kubectl"),
}
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
    "sed": "-i -f --in-place --file -ni --debug --sandbox",
    "awk": "-f -i -l -E -e -o -p -d -D --file --include --load --source --exec -W",
    "pip list": "-o --outdated -u --uptodate --path --python -i --index-url -f --find-links",
    "npm ls": "--prefix --registry --userconfig --script-shell -C",
    "git config": "--add --unset --edit -e --file -f --blob --list -l --rename-section",
    "bash -n": "-c -i -l --rcfile --init-file -s -x",
    "md5sum": "-c --check",
    "less": "-o -O -k -t -T -L -# --log-file --lesskey-file --tag-file +!id +F",
    "ps": "-E -e=x -o=environ e auxe eww --environment",
    "gofmt": "-w -d -r -cpuprofile",
    "tar tf": "-I -C -T -F -P --to-command --use-compress-program --rsh-command",
    "python3 -m json.tool": "-c -m -i",
    "ss": "-K -D -F --kill --diag",
    "iconv": "-o --output",
    "go env": "-w -u -json",
}


@each_row("name", NEVER)
def test_options_that_write_or_execute_are_never_read_only(name: str):
    for flag in NEVER[name].split():
        for value in ([], ["x"], ["x", "y"]):
            read = reading(words([*name.split(), flag, *value]))
            assert not read.reads_only, flag


@each_row("odd", ["--frobnicate", "--frobnicate=x", "-\x01"])
def test_unlisted_arguments_are_not_read_only(odd: str):
    strict = [name for name, row in readers().items() if not row.all_operands]
    assert [name for name in strict if reading(words([*name.split(), odd])).reads_only] == []


ASKED_FOR_NEWS = {"--version", "-v", "-V", "-version", "version", "list", "show", "freeze", "check"}
ASKED_FOR_NEWS |= {"ls", "root", "prefix", "-n", "--check", "-c", "-l", "-s", "-L"}
ASKED_FOR_NEWS |= {"--help", "json.tool", "env", "-vV", "-dc", "-cd"}


RUNNERS = {*("npm", "npx", "make", "python", "node", "pytest", "cargo", "go", "env", "xargs", "sh")}


def test_no_read_only_program_runs_the_projects_code():
    rows = [name.split() for name in readers()]
    # what is asked for news runs nothing of the project's
    programs = {row[0] for row in rows if not row[1:] or row[-1] not in ASKED_FOR_NEWS}
    assert programs & RUNNERS == set()
    assert {each for each in programs if changing(words([each])) is not None} <= SOMETIMES_CHANGING


SCRIPTS = [
    ("s/a/b/", True),
    ("s/a/b/g;s|c|d|;2,5p", True),
    ("/x/,/y/p", True),
    ("1!G;h;$!d", True),
    ("5q", True),
    ("y/abc/xyz/", True),
    ("s/[0-9]*/N/", True),
    ("w out", False),
    ("s/a/b/w out", False),
    ("s/a/b/gw out", False),
    ("s/a/b/e", False),
    ("s/a/b/ge", False),
    ("1e id", False),
    ("e", False),
    ("p;w out", False),
    ("{p;w out\n}", False),
    ("/x/w out", False),
    ("/x/I,/y/Mw out", False),
    ("1~2w out", False),
    ("$!w out", False),
    ("s/[/]/w out/w x/", False),
    ("s,a,b,w out", False),
    ("sxaxbxw out", False),
    ("a foo\\\\\nw out", False),
    ("i\\\nw out", False),
    ("r /etc/passwd", False),
    ("R /etc/passwd", False),
    ("W out", False),
    (":a;ba", False),
    ("#n\nw out", False),
    ("\\,x,w out", False),
    ("s/a/b/m;w out", False),
    ("s/a\\/b/c/;w out", False),
    ("s/a/b\nw out", False),
    ("}w out", False),
    ("F;w out", False),
]


@each_row(("script", "prints"), SCRIPTS)
def test_a_sed_script_is_read_only_if_it_only_prints(script: str, prints: bool):
    assert reading(words(["sed", script, "x"])).reads_only is prints
    assert reading(words(["sed", "-n", "-e", script, "x"])).reads_only is prints


PROGRAMS = [
    ("{print $1}", True),
    ('/foo/ {print NR": "$0}', True),
    ("$3 > 100 {print $1}", True),
    ("{c[$1]++} END {for (k in c) print k, c[k]}", True),
    ('{s+=$1} END {printf "%.2f", s/NR}', True),
    ('{print "a|b", "x>y"}', True),
    ("/a|b/ && NR > 3", True),
    ("!seen[$0]++ || $1 ~ /x>y/", True),
    ('{print > "out"}', False),
    ('{print $1 >> "out"}', False),
    ("{print>$1}", False),
    ('{printf "%s", $1 > "out"}', False),
    ('{print "a" | "sh"}', False),
    ('{print |& "sh"}', False),
    ('{"id" | getline x}', False),
    ('{getline x < "/etc/passwd"}', False),
    ('BEGIN {system("id")}', False),
    ("{system ( $0 )}", False),
    ('BEGIN {print ENVIRON["KEY"]}', False),
    ('BEGIN {ARGV[1] = "/etc/passwd"; ARGC = 2}', False),
    ('@include "x"', False),
    ('BEGIN {f = "system"; @f("id")}', False),
    ("BEGIN {while (1) print}", False),
    ("BEGIN {for (;;) print}", False),
    ("function f() { f() } BEGIN { f() }", False),
    ('/"/ {print > "f"} # "', False),
    ('$1 /"/ 2 {print > "out"}', False),
    ('{x = 4 / 2; print "/" > "out"}', False),
    ("{print a,b > c}", False),
    ('{if (x) /"/; print > "out"; y = "/"}', False),
    ('{print} {print > "out"}', False),
    ("{print (1 > 2)}", False),
    ("{print $1;print $2>$3}", False),
]


@each_row(("program", "prints"), PROGRAMS)
def test_an_awk_program_is_read_only_if_it_only_prints(program: str, prints: bool):
    assert reading(words(["awk", program, "x"])).reads_only is prints


def test_braces_are_expanded_up_to_a_limit():
    assert spellings("a{b,c}d") == ["abd", "acd"]
    assert spellings("{a,b}{c,d}") == ["ac", "ad", "bc", "bd"]
    assert spellings("plain") == ["plain"]
    many = "{a,b}" * 12
    assert spellings(many) == [many]
    assert has_braces(many)


def test_ranges_in_braces_are_expanded_and_quoted_braces_are_not():
    assert spellings("a{b..d}") == ["ab", "ac", "ad"]
    assert spellings("{2..1}") == ["2", "1"]
    assert spellings("[{a,b}]") == ["[a]", "[b]"]
    assert spellings("[{]a,b}") == ["[{]a,b}"]
    assert not has_braces("[{]a,b}")
    for left in ("{A..z}", "{1..100000}", "{a..z..2}"):
        assert spellings(left) == [left]
        assert has_braces(left)


def test_a_misspelled_field_of_a_table_is_an_error():
    with pytest.raises(msgspec.ValidationError, match="unknown field `flag`"):
        msgspec.convert({"flag": "-a"}, Reader)
