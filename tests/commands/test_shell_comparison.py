"""What real shells do with here-documents, beside what the judge says of the same text.

The texts touch and remove a few names in a folder that is made for each of them, and know no
others. Whatever a shell changes there must be among what the judge has named.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rookery.engine.ports.actions import Deed, Judgement
from support.command_project import Bench, bench
from support.each_row import each_row

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SHELLS = [shell for name in ("bash", "dash") if (shell := shutil.which(name))]
NAMES = [f"f{number}" for number in range(8)]

_name = st.sampled_from(NAMES)
_deed = st.builds(
    lambda form, name: form.format(name),
    st.sampled_from(["touch {}", "rm -f {}", "echo x > {}", "echo x >> {}", ": > {}", "> {}"]),
    _name,
)
_start = st.sampled_from(
    ["<<E", "<<'E'", '<<"E"', "<<\\E", "<< E", "<<-E", "<<-'E'", "0<<E", "<<E<<F"]
)
_after = st.one_of(
    st.just(""),
    st.builds(
        lambda form, deed, name: form.format(deed=deed, name=name),
        st.sampled_from(
            [
                *(" > {name}", " >{name} 2>&1", " | cat > {name}", " && {deed}", " ; {deed}"),
                *(" || {deed}", " | {{ {deed}; }}", " & {deed}", "; {deed} #", " # {deed}"),
                *(" > {name} && {deed}", " 2>/dev/null | cat && {deed}", " \\\n > {name}"),
                *(";{deed}", "|cat>{name}", " '\n' > {name}", " - > {name} -"),
            ]
        ),
        _deed,
        _name,
    ),
)
_body_line = st.one_of(
    st.sampled_from(
        [
            *("text", "E ", " E", "\tE", "'", '"', "it's", "foo\\", "foo\\\\", "<<F", "# x", ")"),
            *("F", "$x", "${x}", "$((1<<2))", "}", "`:`", "\\", "EE", "$", "(", "case a in"),
        ]
    ),
    _deed,
    st.builds(
        lambda form, deed: form.format(deed),
        st.sampled_from(
            [
                *("$({})", "`{}`", "\\$({})", "\\`{}\\`", "a $({}) b", "'$({})'", '"`{}`"'),
                *("${{x:-$({})}}", "${{x:-`{}`}}", "$(echo `{}`)", "$(cat <<G\n`{}`\nG\n)"),
                *("$(: ')'; {})", "`echo \\`{}\\``", '$(echo "$({})")', "$((1+$({})))"),
            ]
        ),
        _deed,
    ),
)
_body = st.lists(_body_line, max_size=3).map(lambda lines: "".join(f"{one}\n" for one in lines))
_end = st.sampled_from(["E\n", "E\n", "E\n", "\tE\n", "E", "", "E\nF\n", "E \n", "\\\nE\n"])
_document = st.builds(
    lambda command, start, after, body, end: f"{command} {start}{after}\n{body}{end}",
    st.sampled_from(["cat", ":", "{ cat; }", "( cat )", "cat -", "while read x; do :; done"]),
    _start,
    _after,
    _body,
    _end,
)
_noise = st.sampled_from(
    [
        *("echo '<<E'", 'echo "<<E"', "# <<E", "echo \\<<E", "echo $((1<<2))", "echo a#<<E"),
        *(
            "echo '\n'",
            "echo \"<<'E'\n\"",
            ": ${x#<<E}",
            "cat <<<E",
            'echo "${x:-\'}"',
            "(( 1<<2 ))",
        ),
        *("echo `echo '<<E'`", "echo \"$(echo '<<E')\"", "echo $'\\'<<E'", "[[ a < b ]]", "a=1"),
        *(
            'echo "`echo \\"<<E\\"`"',
            "case a in a) :;; esac",
            "a[1<<2]=1",
            "echo $(:)#",
            "echo \\ #",
            "echo `:`#",
            "echo $(case a in a) :;; esac)",
        ),
    ]
)
_wrapped = st.sampled_from(
    [
        *("{}", "{}", "{}", "{{\n{}\n}}", "(\n{}\n)", "if true; then\n{}\nfi", 'echo "$(\n{}\n)"'),
        *("for i in 1; do\n{}\ndone", "echo `\n{}\n`", "f() {{\n{}\n}}\nf", "true && {}"),
        *("sh <<'OUTER'\n{}\nOUTER\n", "x=$({}\n)", "eval '{}'", "eval '{}'", "sh -c '{}'"),
        *("sh <<OUTER\n{}\nOUTER\n", "eval '{}'$x", "eval \"$x\"'{}'", 'sh -c "{}"'),
    ]
)
_text = st.builds(
    lambda pieces, wrap: wrap.format("\n".join(pieces)),
    st.lists(st.one_of(_document, _document, _noise, _deed), min_size=1, max_size=3),
    _wrapped,
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench(tmp_path_factory.mktemp("project"))


def changed_by(shell: str, text: str) -> set[str]:
    """The names that are there, gone or filled after a shell has run the text."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in NAMES[::2]:
            (folder / name).write_text("old")
        subprocess.run(
            [shell, "-c", text],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": made},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        now = {file.name: file.read_text() for file in folder.iterdir()}
        before = dict.fromkeys(NAMES[::2], "old")
        touched = {name for name in now if name in before and now[name] != before[name]}
        return (touched | (now.keys() ^ before.keys())) & set(NAMES)


def named_by(judged: Judgement) -> set[str]:
    return {target.path for target in judged.targets if target.deed is not Deed.READ}


@settings(
    max_examples=2000 if TORTURE else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=_text)
@example("cat <<'EOF' > f0\nnew\nEOF")
@example("cat <<E | cat > f0\nx\nE\n")
@example("cat <<E && rm -f f0\nx\nE\n")
@example("cat <<E\n`rm -f f0`\nE\n")
@example("cat <<E\nfoo\\\nE\ntouch f1\nE\ntouch f3\n")
@example('echo "<<\'E\'\n"; rm -f f0; : "\nE\n"\ncat <<F\nx\nF\n')
@example("rm 2>/dev/null -f f0")
@example("cat <<E\r\nx\r\nE\r\nrm -f f0\nE")
@example("cat <<EO$x\nEO\nx\nEO$x\nrm -f f0\nEO\nE\n")
@example("a[1<<2]=x\nrm -f f0\n2]=x\n")
@example("a[ 1 <<2 ]=x\nrm -f f0\n2\n")
@example("echo $(:)#'\n: <<E\n'; rm -f f0\nE\n")
@example("echo `:`#'\n: <<E\n'; rm -f f0\nE\n")
@example("echo \\ #'\n: <<E\n'; rm -f f0\nE\n")
@example('echo "${x:-$\'}"; cat <<E\n\'"; rm -f f0\nE\n')
@example("echo $(> f0)")
@example('echo "${x:-\'}"\necho x > f0\necho "${x:-\'}"')
@example('echo "`echo \\`rm -f f0\\``"')
@example("eval 'cat <<E\n'$(touch f0)'\nE\n\ncat <<E > f1\nE\n'")
@example("sh <<OUTER\ncat <<E\n$(echo E)\ntouch f1\nE\nOUTER\n")
@example('x=E; eval "cat <<E\n$x\ntouch f1\nE\n"')
@example("echo -e '\\x74ouch f1' | bash")
def test_every_file_that_a_shell_changes_is_predicted(here: Bench, text: str):
    judged = here.judge(text, "")
    for shell in SHELLS:
        changed = changed_by(shell, text)
        assert changed <= named_by(judged) or judged.dangers, (shell, changed, judged)
        assert not changed or not judged.only_reads


INDEXED = [
    *("[[ 'a[$(touch f1)]' -eq 0 ]]", "[[ -v 'a[$(touch f1)]' ]]", "[ -v 'a[$(touch f1)]' ]"),
    *("test -v 'a[$(touch f1)]'", "[[ 0 -lt 'a[$(touch f1)]' ]]"),
    *("for i in 'a[$(touch f1)]'; do [[ $i -eq 0 ]]; done", "x='a[$(touch f1)]'; echo $((x))"),
    *("x='a[$(touch f1)]'; ((x))", "x='a[$(touch f1)]'; echo ${PATH:x}", "let 'a[$(touch f1)]=1'"),
    *("declare -i x='a[$(touch f1)]'", "printf -v 'a[$(touch f1)]' x"),
    *("read 'a[$(touch f1)]' <<<x", "unset 'a[$(touch f1)]'; a=(1); unset 'a[$(touch f1)]'"),
    *("read x <<'E'\na[$(touch f1)]\nE\n[[ $x -eq 0 ]]", "x=$'a[\\x24(touch f1)]'; [[ $x -eq 0 ]]"),
    "builtin read 'a[$(touch f1)]' <<<x",
    *("a=(1); echo ${a['$(touch f1)']}", "mapfile -c 1 -C 'touch f1; :' b <<<x"),
]


@each_row("text", INDEXED)
def test_commands_in_shell_arithmetic_are_found(here: Bench, text: str):
    judged = here.judge(text, "")
    assert "f1" in changed_by("bash", text) or "unset" in text, "the text is as bad as it is said"
    assert "f1" in named_by(judged)
    assert not judged.only_reads
    assert ("touch", "f1") in judged.commands
