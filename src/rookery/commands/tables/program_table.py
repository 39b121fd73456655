"""The programs that only read, with every option they may be given unasked.

What is left out is left out for a reason: it writes a file, starts a program, follows links
out of the workspace, waits for ever, or reads a list of further paths.
"""

from rookery.commands.tables.read_only_program import Reader
from rookery.commands.tables.tool_table import GIT_READERS, PACKAGE_READERS

_SUM = "-b -t --tag --binary --text"

_GREP = """
    -i -v -c -l -L -n -H -h -o -q -s -w -x -r -E -F -G -P -a -b -I -Z -z -y -A+NUM -B+NUM -C+NUM
    -m+NUM -e=TEXT -# --ignore-case --invert-match --count --files-with-matches
    --files-without-match --line-number --with-filename --no-filename --only-matching --quiet
    --silent --no-messages --word-regexp --line-regexp --recursive --extended-regexp
    --fixed-strings --basic-regexp --perl-regexp --text --byte-offset --color[=TEXT]
    --colour[=TEXT] --after-context=NUM --before-context=NUM --context=NUM --max-count=NUM
    --include=GLOB --exclude=GLOB --exclude-dir=GLOB --binary-files=TEXT --regexp=TEXT
"""

_LESS = """
    -N -S -R -r -F -X -i -I -n -e -E -M -m -g -G -s -w -q -Q -J --LINE-NUMBERS --chop-long-lines
    --RAW-CONTROL-CHARS --raw-control-chars --quit-if-one-screen --no-init --ignore-case
"""
_JSON_TOOL = Reader(
    flags="--sort-keys --no-ensure-ascii --json-lines --indent=NUM --tab --no-indent --compact",
    operands="PATH?",
    unshadowed=True,
    lead="-I",
)
_TAR = Reader(operands="ARCHIVE TEXT*", unshadowed=True)
_TAR_LETTERS = "tf tzf tvf tzvf tvzf tjf tjvf tvjf tJf tJvf tvJf ztf ztvf"
_JAR = Reader(operands="PATH", unshadowed=True, argument_files=True)

READERS: dict[str, Reader] = {
    "ls": Reader(
        flags="""
            -a -A -l -h -1 -R -t -r -S -d -F -p -s -i -n -g -o -G -c -u -U -X -v -k -m -x -C -Q -b
            -q -B -N -Z --all --almost-all --human-readable --recursive --reverse --directory
            --classify --size --inode --color[=TEXT] --group-directories-first --full-time --si
            --sort=TEXT --time=TEXT --time-style=TEXT --numeric-uid-gid --no-group --hide=GLOB
            --ignore=GLOB -I=GLOB --format=TEXT --author --literal --zero
        """,
        here=True,
    ),
    "cat": Reader(
        flags="-n -b -A -E -T -s -v -e -t -u --number --number-nonblank --show-all --squeeze-blank"
    ),
    "head": Reader(flags="-n+NUM -c+NUM -q -v -z -# --lines=NUM --bytes=NUM --quiet --verbose"),
    "tail": Reader(flags="-n+NUM -c+NUM -q -v -z -# --lines=NUM --bytes=NUM --quiet --verbose"),
    "wc": Reader(flags="-l -w -c -m -L --lines --words --bytes --chars --max-line-length"),
    "grep": Reader(flags=_GREP, operands="TEXT PATH*", deep="-r --recursive"),
    "egrep": Reader(flags=_GREP, operands="TEXT PATH*", deep="-r --recursive"),
    "fgrep": Reader(flags=_GREP, operands="TEXT PATH*", deep="-r --recursive"),
    "rg": Reader(
        flags="""
            -i -s -S -v -c -l -n -N -o -q -w -x -F -P -U -H -I -a -0 -. -A+NUM -B+NUM -C+NUM
            -m+NUM -g+GLOB -t+TEXT -T+TEXT -e=TEXT -d=NUM -M+NUM -j+NUM -r=TEXT -p --ignore-case
            --case-sensitive --smart-case --invert-match --count --count-matches
            --files-with-matches --files-without-match --line-number --no-line-number
            --only-matching --quiet --word-regexp --line-regexp --fixed-strings --pcre2
            --multiline --multiline-dotall --with-filename --no-filename --text --hidden
            --after-context=NUM --before-context=NUM --context=NUM --max-count=NUM --glob=GLOB
            --iglob=GLOB --type=TEXT --type-not=TEXT --regexp=TEXT --max-depth=NUM
            --max-columns=NUM --threads=NUM --replace=TEXT --type-list --color=TEXT
            --colors=TEXT --heading --no-heading --column --no-column --vimgrep --json --stats
            --sort=TEXT --sortr=TEXT --trim --no-messages --pretty --max-filesize=TEXT --no-config
            --null --passthru --crlf --engine=TEXT --no-follow
        """,
        operands="TEXT PATH*",
        deep="always",
    ),
    "rg --files": Reader(
        flags="""
            -g+GLOB -t+TEXT -T+TEXT -0 -. --hidden --glob=GLOB --iglob=GLOB --type=TEXT
            --no-config --type-not=TEXT --sort=TEXT --sortr=TEXT --max-depth=NUM -d=NUM --null
            --no-messages
        """,
        here=True,
    ),
    "find": Reader(
        flags="""
            -P -name=GLOB -iname=GLOB -path=GLOB -ipath=GLOB -wholename=GLOB -regex=TEXT
            -iregex=TEXT -regextype=TEXT -type=TEXT -maxdepth=NUM -mindepth=NUM -size=NUM
            -mtime=NUM -mmin=NUM -atime=NUM -amin=NUM -ctime=NUM -cmin=NUM -newer=PATH -empty
            -print -print0 -prune -quit -not -o -or -a -and -depth -xdev -mount -user=TEXT
            -group=TEXT -readable -writable -executable -links=NUM -ls -true -false -daystart
            -printf=TEXT -noleaf
        """,
        here=True,
        whole_flags=True,
        signs="( ) !",
    ),
    "tree": Reader(
        flags="""
            -L+NUM -a -d -f -i -p -s -h -u -g -D -F -r -t -v -n -C -I=GLOB -P=GLOB --dirsfirst
            --du --noreport --prune --gitignore --filelimit=NUM --ignore-case --matchdirs --si -J
        """,
        here=True,
    ),
    "file": Reader(flags="-b -i -0 --brief --mime --mime-type --mime-encoding"),
    "stat": Reader(flags="-c=TEXT -f -t --format=TEXT --printf=TEXT --file-system --terse"),
    "du": Reader(
        flags="""
            -s -h -a -c -k -m -b -x -0 -S -d+NUM --summarize --human-readable --all --total
            --bytes --apparent-size --max-depth=NUM --exclude=GLOB --one-file-system --si
            --time[=TEXT] -t=TEXT --threshold=TEXT
        """,
        here=True,
    ),
    "df": Reader(flags="-h -T -i -k -m -a -l -P -H --human-readable --print-type --inodes --total"),
    "diff": Reader(
        flags="""
            -u -U+NUM -c -C+NUM -q -s -w -b -i -B -y -N -a -r -E -Z -t -d -p -W+NUM
            --unified[=NUM] --context[=NUM] --brief --report-identical-files --ignore-all-space
            --ignore-case --ignore-space-change --ignore-blank-lines --side-by-side --new-file
            --text --recursive --color[=TEXT] --exclude=GLOB -x=GLOB --strip-trailing-cr
            --suppress-common-lines --width=NUM --minimal --no-dereference --label=TEXT
        """,
        operands="PATH PATH",
        deep="always",
        follows=True,
    ),
    "cmp": Reader(
        flags="-s -l -b -n=NUM --silent --quiet --verbose --bytes=NUM", operands="PATH PATH?"
    ),
    "comm": Reader(flags="-1 -2 -3 -i -z --total", operands="PATH PATH"),
    "sort": Reader(
        flags="""
            -n -r -u -h -V -f -b -g -M -d -i -s -c -C -z -R -k+TEXT -t+TEXT --numeric-sort
            --reverse --unique --human-numeric-sort --version-sort --ignore-case --key=TEXT
            --field-separator=TEXT --stable --check[=TEXT]
        """
    ),
    "uniq": Reader(
        flags="-c -d -u -i -D -z -f+NUM -s+NUM -w+NUM --count --repeated --unique --ignore-case",
        operands="PATH?",
    ),
    "cut": Reader(
        flags="""
            -d+TEXT -f+LIST -c+LIST -b+LIST -s -z --delimiter=TEXT --fields=LIST --bytes=LIST
            --characters=LIST --output-delimiter=TEXT --only-delimited --complement
        """
    ),
    "tr": Reader(
        flags="-d -s -c -C -t --delete --squeeze-repeats --complement", operands="TEXT TEXT?"
    ),
    "nl": Reader(flags="-b+TEXT -w+NUM -s=TEXT -v+NUM -n=TEXT -i+NUM"),
    "tac": Reader(),
    "rev": Reader(),
    "column": Reader(flags="-t -s=TEXT -o=TEXT -c=NUM -n -x --table --separator=TEXT"),
    "paste": Reader(flags="-s -d=TEXT -z"),
    "fold": Reader(flags="-w+NUM -s -b --width=NUM --spaces"),
    "expand": Reader(flags="-t+NUM -i"),
    "od": Reader(flags="-c -x -b -A=TEXT -t=TEXT -N+NUM -j+NUM -v -w+NUM"),
    "hexdump": Reader(flags="-C -c -x -v -n=NUM -s=NUM"),
    "strings": Reader(flags="-a -n=NUM -t=TEXT", argument_files=True),
    "basename": Reader(flags="-a -s=TEXT -z --suffix=TEXT --multiple", operands="TEXT*"),
    "dirname": Reader(flags="-z", operands="TEXT*"),
    "realpath": Reader(flags="-e -m -q -s -z --relative-to=PATH --relative-base=PATH"),
    "readlink": Reader(flags="-f -e -m -n -q -v -z"),
    "pwd": Reader(operands="", here=True),
    "echo": Reader(operands="TEXT*", all_operands=True),
    "true": Reader(operands=""),
    "false": Reader(operands=""),
    "test": Reader(
        flags="""
            -e=PATH -f=PATH -d=PATH -s=PATH -L=PATH -h=PATH -r=PATH -w=PATH -x=PATH -n=TEXT
            -z=TEXT -eq=NUM -ne=NUM -lt=NUM -le=NUM -gt=NUM -ge=NUM
        """,
        operands="TEXT*",
        whole_flags=True,
    ),
    "date": Reader(
        flags="-u -R -d=TEXT -I[=TEXT] --utc --date=TEXT --iso-8601[=TEXT] --rfc-3339=TEXT",
        operands="DATE?",
    ),
    "whoami": Reader(operands=""),
    "id": Reader(flags="-u -g -G -n -r", operands="TEXT?"),
    "groups": Reader(operands="TEXT?"),
    "uname": Reader(flags="-a -s -n -r -v -m -p -i -o", operands=""),
    "arch": Reader(operands=""),
    "nproc": Reader(flags="--all", operands=""),
    "uptime": Reader(flags="-p -s", operands=""),
    "which": Reader(flags="-a", operands="TEXT*"),
    "md5sum": Reader(flags=_SUM),
    "sha1sum": Reader(flags=_SUM),
    "sha224sum": Reader(flags=_SUM),
    "sha256sum": Reader(flags=_SUM),
    "sha384sum": Reader(flags=_SUM),
    "sha512sum": Reader(flags=_SUM),
    "b2sum": Reader(flags=_SUM),
    "cksum": Reader(),
    "sum": Reader(),
    "seq": Reader(flags="-w -s=TEXT -f=TEXT", operands="COUNT COUNT? COUNT?"),
    "jq": Reader(
        flags="""
            -r -c -s -e -S -C -M -a -j --raw-output --compact-output --slurp
            --exit-status --sort-keys --color-output --monochrome-output --ascii-output --tab
            --indent=NUM --join-output -R --raw-input
        """,
        operands="JQ PATH*",
    ),
    "sed": Reader(
        flags="-n -E -r -u -s -z -e=SED --expression=SED --quiet --silent --regexp-extended",
        operands="SED PATH*",
    ),
    "awk": Reader(flags="-F+TEXT -v+SET", operands="AWK PATH*"),
    "gawk": Reader(flags="-F+TEXT -v+SET", operands="AWK PATH*"),
    "mawk": Reader(flags="-F+TEXT -v+SET", operands="AWK PATH*"),
    "printf": Reader(operands="TEXT TEXT*", all_operands=True),
    "xxd": Reader(flags="-p -b -u -i -e -l=NUM -s=NUM -c=NUM -g=NUM", operands="PATH"),
    "base64": Reader(flags="-d -i -w+NUM --decode --ignore-garbage --wrap=NUM", operands="PATH?"),
    "shuf": Reader(flags="-n+NUM -e -r -z", operands="PATH?"),
    "unzip -l": Reader(flags="-v -q", operands="PATH"),
    "bash -n": Reader(operands="PATH", unshadowed=True),
    "sh -n": Reader(operands="PATH", unshadowed=True),
    "dash -n": Reader(operands="PATH", unshadowed=True),
    "node --check": Reader(operands="PATH", unshadowed=True),
    "node -c": Reader(operands="PATH", unshadowed=True),
    "less": Reader(flags=_LESS, operands="FILE*", instead="cat"),
    "more": Reader(flags="-d -f -p -c -u -s", operands="FILE?", instead="cat"),
    "whereis": Reader(flags="-b -m -s", operands="NAME*"),
    "python -m json.tool": _JSON_TOOL,
    "python3 -m json.tool": _JSON_TOOL,
    "php -l": Reader(operands="PATH", unshadowed=True),
    "gofmt": Reader(flags="-l -s -e", deep="always", whole_flags=True, unshadowed=True),
    "shellcheck": Reader(
        flags="""
            -s=TEXT -S=TEXT -e=TEXT -f=TEXT -C[=TEXT] --shell=TEXT --severity=TEXT --exclude=TEXT
            --format=TEXT --color[=TEXT]
        """,
        unless=".shellcheckrc shellcheckrc",
        unshadowed=True,
    ),
    "join": Reader(
        flags="-1+NUM -2+NUM -t+TEXT -a+NUM -v+NUM -j+NUM -i -e=TEXT -o=TEXT -z --header",
        operands="PATH PATH",
    ),
    "fmt": Reader(flags="-w+NUM -s -u -t -# --width=NUM"),
    "expr": Reader(operands="TEXT*"),
    "numfmt": Reader(
        flags="--to=TEXT --from=TEXT --suffix=TEXT --format=TEXT --padding=NUM --field=LIST",
        operands="TEXT*",
    ),
    "iconv": Reader(
        flags="-f=TEXT -t=TEXT -c -l --from-code=TEXT --to-code=TEXT --list",
    ),
    "getconf": Reader(operands="NAME"),
    "locale": Reader(flags="-a -m", operands=""),
    "zipinfo": Reader(flags="-1 -2 -s -m -l -h -t", operands="PATH"),
    "gzip -l": Reader(flags="-v"),
    **dict.fromkeys(("gzip -dc", "gzip -cd", "gunzip -c", "zcat"), Reader(unshadowed=True)),
    **{f"tar {dash}{letters}": _TAR for dash in ("", "-") for letters in _TAR_LETTERS.split()},
    **{f"jar {letters}": _JAR for letters in ("tf", "-tf", "tvf", "-tvf")},
    "ps": Reader(
        flags="""
            -e -A -a -f -F -l -j -L -x -w -T -H -u+NAME -U+NAME -p+LIST -C=NAME -o+COLUMNS
            --ppid=LIST --pid=LIST --sort=TEXT --no-headers --no-heading --forest --width=NUM
        """,
        operands="LETTERS?",
    ),
    "pgrep": Reader(flags="-f -l -a -x -i -n -o -c -u=NAME -P=LIST", operands="TEXT?"),
    "ss": Reader(flags="-t -u -l -n -p -a -4 -6 -s -x -r -h", operands=""),
    "netstat": Reader(flags="-t -u -l -n -p -a -4 -6 -s -x -r", operands=""),
    "lsof -i": Reader(flags="-P -n -t", operands="TEXT?"),
    "lsblk": Reader(flags="-f -a -p -l -o=TEXT", operands=""),
    "mount": Reader(operands=""),
    "hostname": Reader(flags="-f -s -d", operands=""),
    "free": Reader(flags="-h -m -g -k -b -t --human", operands=""),
    "lscpu": Reader(operands=""),
    **PACKAGE_READERS,
    **GIT_READERS,
}
_NO_HELP = {"less", "more", "echo", "test", "true", "false", "printf", "pwd", "xargs"}
"""For these `--help` means something else, or is answered by the shell."""
READERS |= {
    f"{name} --help": Reader(operands="", unshadowed=True)
    for name in READERS
    if " " not in name and name not in _NO_HELP
}
