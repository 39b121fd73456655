import io
import json
import os
import random
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.tools.documents import document_formats, document_worker
from rookery.tools.documents.document_text import DocumentBounds, DocumentText, document_text
from rookery.tools.file_sections import DocumentKind, document_kind
from support import sample_documents as samples
from support.each_row import each_row

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
BOUNDS = DocumentBounds()
PLAIN_BOUNDS = {name: getattr(BOUNDS, name) for name in BOUNDS.__struct_fields__}
ZIP, PDF = DocumentKind.ZIP, DocumentKind.PDF
WORD, BOOK = samples.word_document(), samples.workbook()
PAGES = samples.pdf("Hello", "", "World")
NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": "1"}]}).encode()
ENTITIES = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'


def read_here(kind: DocumentKind, data: bytes, **bounds: int) -> str:
    """The same without a process, for trying many. Raises `DocumentRefused` at most."""
    with warnings.catch_warnings(), document_worker.explained():
        warnings.simplefilter("ignore")
        checked = document_worker.checked_kind(kind, data, PLAIN_BOUNDS | bounds)
        library = document_worker.loaded(checked)
        return "\n".join(document_worker.READERS[checked](library, data))


@each_row(
    ("kind", "data", "text"),
    [
        pytest.param(PDF, PAGES, "--- page 1 ---\nHello\n--- page 3 ---\nWorld\n", id="pdf"),
        pytest.param(ZIP, WORD, samples.WORD_TEXT, id="docx"),
        pytest.param(ZIP, BOOK, samples.WORKBOOK_TEXT, id="xlsx"),
        pytest.param(DocumentKind.NOTEBOOK, NOTEBOOK, "--- cell 1, code ---\n1\n", id="ipynb"),
    ],
)
async def test_documents_are_read_as_text(kind: DocumentKind, data: bytes, text: str):
    assert await document_text(kind, data) == DocumentText(text=text)


async def test_text_of_a_docx_that_is_easily_overlooked():
    def run(text: str) -> str:
        return f"<w:r><w:t>{text}</w:t></w:r>"

    body = (
        f"<w:sdt><w:sdtContent><w:p>{run('in a control')}</w:p></w:sdtContent></w:sdt>"
        f"<w:p>{run('kept ')}<w:ins>{run('inserted')}</w:ins>"
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
        f"<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc><w:p>{run('inner')}</w:p></w:tc></w:tr></w:tbl>"
        f"</w:tc><w:tc><w:p>{run('one')}</w:p><w:p>{run('two')}</w:p></w:tc></w:tr></w:tbl>"
    )
    data = samples.word_archive(
        f'<w:document xmlns:w="{samples.W}"><w:body>{body}</w:body></w:document>'.encode()
    )
    assert await document_text(ZIP, data) == DocumentText(
        text="in a control\nkept inserted\ninner | one two\n"
    )


async def test_an_unreadable_document_is_reported():
    assert await document_text(PDF, samples.pdf("", "")) == DocumentText(
        text="",
        problem="There is no text in it: its pages are empty or pictures, perhaps scanned.",
    )
    assert "password" in (await document_text(DocumentKind.COMPOUND, b"")).problem


@each_row(
    ("kind", "data", "words"),
    [
        pytest.param(PDF, b"%PDF-1.4 and nothing else", "damaged", id="damaged pdf"),
        pytest.param(ZIP, samples.word_archive(""), "no text", id="empty docx"),
        pytest.param(ZIP, b"PK\x03\x04 and nothing else", "damaged zip", id="damaged zip"),
        pytest.param(ZIP, samples.archive({"a.txt": "a"}), "but not a document", id="zip"),
        pytest.param(
            ZIP,
            samples.archive({"word/document.xml": "<a/>"}, zipfile.ZIP_BZIP2),
            "packed in a way",
            id="other packing",
        ),
        pytest.param(DocumentKind.NOTEBOOK, b'{"cells": 3}', "not a notebook", id="ipynb"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(kind: DocumentKind, data: bytes, words: str):
    with pytest.raises(document_worker.DocumentRefused, match=words):
        read_here(kind, data)


def test_an_encrypted_pdf_is_reported():
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(PAGES))
    writer.encrypt("secret", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    with pytest.raises(document_worker.DocumentRefused, match="password"):
        read_here(PDF, file.getvalue())


@each_row(
    ("path", "data", "kind"),
    [
        ("a.pdf", PAGES, PDF),
        ("a.txt", PAGES, PDF),
        ("a.pdf", b"\n" * 100 + PAGES, PDF),
        ("a.pdf", b"just words", None),
        ("a.DOCX", WORD, ZIP),
        ("a.xlsx", WORD, ZIP),
        ("a.zip", WORD, None),
        ("a.docx", b"just words", None),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", DocumentKind.COMPOUND),
        ("a.ipynb", b'\xef\xbb\xbf\n {"cells"', DocumentKind.NOTEBOOK),
        ("a.ipynb", b"just words", None),
        ("a.json", b"{}", None),
    ],
)
def test_content_decides_what_a_document_is(path: str, data: bytes, kind: DocumentKind | None):
    assert document_kind(path, data) is kind


with zipfile.ZipFile(io.BytesIO(BOOK)) as _opened:
    PARTS = len(_opened.infolist())
    EXPANDED = sum(part.file_size for part in _opened.infolist())


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("entries", PARTS, "parts, too many"),
        ("expanded_bytes", EXPANDED, "would unpack to"),
        ("ratio", -(-EXPANDED // len(BOOK)), "would unpack to"),
    ],
    # how far a workbook can be packed depends on the moment at which it says it was made
    ids=["entries", "expanded_bytes", "ratio"],
)
def test_an_archive_has_limits(name: str, size: int, words: str):
    assert read_here(ZIP, BOOK, **{name: size}) == samples.WORKBOOK_TEXT.rstrip("\n")
    with pytest.raises(document_worker.DocumentRefused, match=words):
        read_here(ZIP, BOOK, **{name: size - 1})


async def test_a_document_and_its_text_have_limits():
    size = len(samples.WORKBOOK_TEXT.encode())
    whole = DocumentBounds(input_bytes=len(BOOK), text_bytes=size)
    assert await document_text(ZIP, BOOK, whole) == DocumentText(text=samples.WORKBOOK_TEXT)
    larger = await document_text(ZIP, BOOK, DocumentBounds(input_bytes=len(BOOK) - 1))
    assert (larger.text, "larger than" in larger.problem) == ("", True)
    longer = await document_text(ZIP, BOOK, DocumentBounds(text_bytes=size - 1))
    assert "Only the beginning" in longer.problem
    assert len(longer.text.encode()) < size


ZEROS = bytes(30_000_000)


def nested() -> bytes:
    return samples.archive({"a.zip": samples.archive({"b.zip": samples.archive({"c": ZEROS})})})


@each_row(
    ("made", "words"),
    [
        pytest.param(lambda: samples.word_archive(ZEROS), "unpack to 30000", id="high ratio"),
        pytest.param(
            lambda: samples.word_archive("a", **{"word/more.bin": ZEROS}),
            "unpack to",
            id="beside it",
        ),
        pytest.param(nested, "not a document", id="nested"),
        pytest.param(
            lambda: samples.word_archive("a", **{f"p{n}": "" for n in range(10_000)}),
            "parts",
            id="parts",
        ),
        pytest.param(
            lambda: samples.word_archive("&b;", ENTITIES), "entities", id="entities in docx"
        ),
        pytest.param(
            lambda: samples.sheet_archive("<row/>", ENTITIES), "entities", id="entities in xlsx"
        ),
        pytest.param(
            lambda: samples.word_archive(
                "&b;", f"<!--{random.Random(0).randbytes(99_999).hex()}-->{ENTITIES}"
            ),
            "entities",
            id="entities far behind a comment",
        ),
        pytest.param(
            lambda: samples.word_archive(f"{ENTITIES}<a>&b;</a>".encode("utf-16")),
            "entities",
            id="entities in UTF-16",
        ),
        pytest.param(
            lambda: samples.word_archive(
                b'<?xml version="1.0" encoding="UTF-7"?>+ADwAIQ-DOCTYPE a []><a/>'
            ),
            "encoding",
            id="entities in UTF-7",
        ),
        pytest.param(
            lambda: samples.word_archive(
                "&e;", '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
            ),
            "entities",
            id="a file from outside",
        ),
    ],
)
def test_bombs_are_refused(made: Callable[[], bytes], words: str):
    with pytest.raises(document_worker.DocumentRefused, match=words):
        read_here(ZIP, made())


async def test_an_entry_with_a_wrong_size_is_damaged():
    data = bytearray(samples.word_archive(bytes(1_000_000)))
    entry = data.rfind(b"PK\x01\x02", 0, data.rfind(b"word/document.xml"))
    data[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    document = await document_text(ZIP, bytes(data))
    assert document == DocumentText(
        text="", problem="It is damaged, or not the document it seems to be."
    )


async def test_a_pdf_that_unpacks_without_end_is_not_followed():
    packed = zlib.compress(bytes(200_000_000), 1)
    packed = zlib.compress(packed, 9)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n" % len(packed)
    data = samples.assembled_pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
            stream + packed + b"\nendstream",
        ]
    )
    document = await document_text(PDF, data)
    assert "could not be read" in document.text or document.problem


def endless() -> bytes:
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>7</v></c></row>' for n in range(1, 9_000))
    return samples.sheet_archive(f'{rows}<row r="999999999999"><c r="A9999"/></row>')


async def test_reading_is_stopped_in_time_and_what_was_read_is_kept():
    for seconds in (2, 8, 18):  # on a busy machine it takes a while to start at all
        document = await document_text(ZIP, endless(), DocumentBounds(seconds=seconds))
        assert document.problem == f"Reading it was stopped after {seconds} seconds."
        if document.text:
            break
    assert document.text.startswith("--- sheet S ---\n7\n7\n")


async def test_a_worker_without_memory_gives_a_one_sentence_error():
    document = await document_text(ZIP, BOOK, DocumentBounds(memory_bytes=1_000_000))
    assert document.text == ""
    assert document.problem


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="tells processes apart by /proc")
async def test_a_cancelled_reading_leaves_no_process():
    others = set(children().split())
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(document_text, ZIP, endless())
            with anyio.fail_after(60):
                while not set(children().split()) - others:
                    await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert set(children().split()) - others == set()


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def run_worker(script: str, *options: str) -> str:
    """A program beside the worker, in the state in which the worker reads."""
    done = subprocess.run(
        [sys.executable, "-I", "-P", *options, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_a_worker_can_open_neither_files_nor_connections():
    script = f"""
import errno, socket, sys
sys.path.insert(0, {str(Path(document_worker.__file__).parents[2])!r})
from rookery.tools.documents.document_worker import close_doors
close_doors()
for attempt in (lambda: open("/etc/hostname"), socket.socket, socket.socketpair):
    try:
        attempt()
    except OSError as error:
        print(error.errno == errno.EMFILE)
"""
    assert run_worker(script) == "True\n" * 3


def test_missing_packages_are_named():
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-P",
            "-S",
            document_worker.__file__,
            "pdf",
            json.dumps(PLAIN_BOUNDS),
        ],
        input=PAGES,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert (
        done.stdout
        == b"\0Reading pdf documents needs a package: pip install pypdf python-docx openpyxl."
    )


def test_at_most_50000_rows_of_a_sheet_are_read(monkeypatch: pytest.MonkeyPatch):
    assert document_formats.MOST_ROWS == 50_000
    if not TORTURE:  # a second for each reading of as many
        monkeypatch.setattr(document_formats, "MOST_ROWS", 2_000)
    most = document_formats.MOST_ROWS
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(1, most + 2))
    lines = read_here(ZIP, samples.sheet_archive(rows)).split("\n")
    assert lines[-2:] == [f"{most}", f"(Only the first {most} rows of this sheet are shown.)"]
    exactly = read_here(ZIP, samples.sheet_archive(rows.rpartition("<row")[0])).split("\n")
    assert exactly[-1] == f"{most}"


SMALL = {
    "pdf": (PDF, PAGES),
    "docx": (ZIP, WORD),
    "small docx": (ZIP, samples.word_archive("tiny")),
    "xlsx": (ZIP, BOOK),
    "ipynb": (DocumentKind.NOTEBOOK, NOTEBOOK),
}


@each_row("name", SMALL)
def test_a_document_that_breaks_off_is_read_or_refused(name: str):
    kind, data = SMALL[name]
    for end in range(0, len(data), 1 if len(data) < 2000 and TORTURE else 50):
        with suppress(document_worker.DocumentRefused):
            read_here(kind, data[:end])


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=2000 if TORTURE else 25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_spoiled_document_is_read_or_refused(name: str, seed: int):
    kind, data = SMALL[name]
    chance, spoiled = random.Random(seed), bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
    with suppress(document_worker.DocumentRefused):
        read_here(kind, bytes(spoiled))


MARKS = {PDF: b"%PDF-1.4\n", ZIP: b"PK\x03\x04", DocumentKind.NOTEBOOK: b'{"cells":'}


@pytest.mark.parametrize("kind", MARKS)
@settings(max_examples=2000 if TORTURE else 25, deadline=None)
@given(data=st.binary(max_size=500))
def test_random_bytes_are_refused(kind: DocumentKind, data: bytes):
    with pytest.raises(document_worker.DocumentRefused):
        read_here(kind, MARKS[kind] + data)
