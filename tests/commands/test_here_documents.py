"""Here-documents are taken out of a text as a shell would take them out."""

import pytest

from rookery.commands.here_documents import Document, split_documents, substitutions

APART = [
    ("ls", "ls", []),
    ("cat <<E\nx\nE\nls", "cat  \nls", [Document("x\n", quoted=False)]),
    ("cat <<'E' > f\n$(x)\nE\n", "cat   > f\n", [Document("$(x)\n", quoted=True)]),
    ("cat <<-E\n\tx\n\tE\nls", "cat  \nls", [Document("\tx\n", quoted=False)]),
    ('cat 3<<"a b"\nx\na b\n', "cat  \n", [Document("x\n", quoted=True)]),
    ("cat <<A <<\\B\n1\nA\n2\nB\n", "cat    \n", [Document("1\n", False), Document("2\n", True)]),
    ("echo '<<E'\nE", "echo '<<E'\nE", []),
    ('echo "<<E\n"\nE', 'echo "<<E\n"\nE', []),
    ("ls # <<E\nE", "ls \nE", []),
    ("cat <<<E\nE", "cat <<<E\nE", []),
    ("cat <<E\nE \n E\nE", "cat  \n", [Document("E \n E\n", quoted=False)]),
    ("cat <<E\nx\\\nE\nE\nls", "cat  \nls", [Document("x\\\nE\n", quoted=False)]),
    ("x=\"$(cat <<'E'\nit's\nE\n)\"; ls", 'x="$(cat  \n)"; ls', [Document("it's\n", quoted=True)]),
]


@pytest.mark.parametrize(("text", "rest", "documents"), APART, ids=lambda value: repr(value)[:40])
def test_here_documents_are_split_from_the_command(text: str, rest: str, documents: list[Document]):
    made = split_documents(text)
    assert (made.rest, list(made.documents)) == (rest, documents)


UNCERTAIN = [
    *("cat <<E\nx", "cat <<$x\n$x\n", "a[1<<E]=1\nE\n", "echo $(cat <<E)\nE\n", "`cat <<E\nE\n`"),
    *(
        "((1<<2))",
        "echo $(:)#\ncat <<E\nE\n",
        "cat <<E 'a\nb'\nE\n",
        "cat <<E\\\nF\nEF\n",
    ),
    *("echo $(case a in a) cat <<E\nE\n;; esac)", 'echo "${x:-\'}"; cat <<E\nE\n'),
]


@pytest.mark.parametrize("text", UNCERTAIN, ids=repr)
def test_ambiguous_here_documents_are_marked_as_doubtful(text: str):
    assert split_documents(text).doubt


RUNS = [
    ("text $x ${y} \\$(a) \\`b\\`", []),
    ("$(a b) and `c`", [": $(a b)", "c"]),
    ("`echo \\`a\\``", ["echo `a`"]),
    ("${x:-$(a)}", [": ${x:-$(a)}"]),
    ("$(echo ')') x", [": $(echo ')')"]),
    ("it's $(a", [": $(a"]),
]


@pytest.mark.parametrize(("body", "runs"), RUNS, ids=lambda value: repr(value)[:40])
def test_substitutions_in_an_unquoted_document_are_found(body: str, runs: list[str]):
    assert list(substitutions(body).runs) == runs
    assert [run.strip() for run in split_documents(f"cat <<E\n{body}\nE\n").runs] == runs
    assert split_documents(f"cat <<'E'\n{body}\nE\n").runs == ()
