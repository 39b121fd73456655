"""Diffs of every kind are read, and content never passes for a header."""

import subprocess
from pathlib import Path

import pytest

from rookery.diffs.unified import DiffFile, read_diff
from support.repositories import git

SAMPLES = {
    "changed": (
        b"diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n"
        b"@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n",
        [("x.py", "x.py", "changed", 1)],
    ),
    "renamed with changes": (
        b"diff --git a/old b/new\nsimilarity index 90%\nrename from old\nrename to new\n"
        b"--- a/old\n+++ b/new\n@@ -1 +1 @@\n-a\n+b\n",
        [("new", "old", "renamed", 1)],
    ),
    "renamed only": (
        b"diff --git a/old name b/new name\nsimilarity index 100%\n"
        b"rename from old name\nrename to new name\n",
        [("new name", "old name", "renamed", 0)],
    ),
    "added empty": (
        b"diff --git a/e b/e\nnew file mode 100644\nindex 0..0\n",
        [("e", "e", "added", 0)],
    ),
    "removed": (
        b"diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n"
        b"@@ -1,2 +0,0 @@\n-a\n-b\n",
        [("gone", "gone", "removed", 1)],
    ),
    "plain diff -u with times": (
        b"--- x.c.orig\t2020-01-01 00:00:00\n+++ x.c\t2020-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n"
        b"--- y.c\n+++ y.c\n@@ -1 +1 @@\n-a\n+b\n",
        [("x.c", "x.c.orig", "changed", 1), ("y.c", "y.c", "changed", 1)],
    ),
    "removed lines that look like headers": (
        b"--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- a/comment\n-++ b/comment\n+x\n",
        [("q.sql", "q.sql", "changed", 1)],
    ),
    "added lines that look like a diff": (
        b"--- a/d\n+++ b/d\n@@ -0,0 +1,2 @@\n+diff --git a/z b/z\n+@@ -1 +1 @@\n",
        [("d", "d", "changed", 1)],
    ),
    "a mailed patch": (
        b"From 12 Mon Sep 17 00:00:00 2001\nFrom: a <a@b>\nSubject: [PATCH] x\n\n---\n x | 2 +-\n\n"
        b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
        b"-- \n2.40\n",
        [("x", "x", "changed", 1)],
    ),
    "quoted names": (
        b'diff --git "a/\\303\\251\\n.txt" "b/\\303\\251\\n.txt"\n'
        b'--- "a/\\303\\251\\n.txt"\n+++ "b/\\303\\251\\n.txt"\n@@ -1 +1 @@\n-a\n+b\n',
        [("é\n.txt", "é\n.txt", "changed", 1)],
    ),
    "windows line ends": (
        b"diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
        [("x", "x", "changed", 1)],
    ),
    "cut off in a hunk": (
        b"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n",
        [("x", "x", "changed", 1)],
    ),
    "numbers beyond all files": (
        b"--- a/x\n+++ b/x\n@@ -" + b"1" * 5000 + b" +1 @@\n+a\n",
        [("x", "x", "changed", 0)],
    ),
    "no diff": (b"just words\n--- and\nmore @@ words\n", []),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("data", "expected"), SAMPLES.values(), ids=SAMPLES.keys())
def test_files_of_a_diff(data: bytes, expected: list[tuple[str, str, str, int]]):
    found = [(file.path, file.old_path, file.kind, len(file.hunks)) for file in read_diff(data)]
    assert found == expected


def test_git_is_read_as_git_writes_it(tmp_path: Path):
    git(tmp_path, "init", "-q")
    for name in ("kept.txt", "gone.txt", "old name.txt", "binary"):
        (tmp_path / name).write_text(f"{name}\n" * 9, encoding="utf-8")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    (tmp_path / "gone.txt").unlink()
    (tmp_path / "old name.txt").rename(tmp_path / "new name.txt")
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    (tmp_path / b"caf\xe9.txt".decode("utf-8", "surrogateescape")).write_bytes(b"x")
    git(tmp_path, "add", "-A")
    words = ["git", "diff", "--cached", "-M", "HEAD"]
    data = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True).stdout
    files = {file.name: file for file in read_diff(data)}
    assert {name: file.kind for name, file in files.items()} == {
        "binary": "changed",
        "caf\\udce9.txt": "added",
        "gone.txt": "removed",
        "new name.txt": "renamed",
    }
    assert [name for name, file in files.items() if file.binary] == ["binary"]
    assert isinstance(files["binary"], DiffFile)
