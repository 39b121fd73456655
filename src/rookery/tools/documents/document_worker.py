"""Prints the text of a document: `document_worker.py KIND BOUNDS <DOCUMENT`

Prints the text as it is extracted, then a NUL, then a sentence about what is missing, if anything.
Without the NUL it did not finish. It is a separate process so that it can be killed, cannot open
files or connections, and has limited time and memory. It is run by path; only its tests import it.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

_OUR_OWN = "rookery.tools.documents.document_formats"
LIBRARIES = {
    "pdf": "pypdf",
    "docx": "docx",
    "xlsx": "openpyxl",
    "ipynb": _OUR_OWN,
}

_PART_KINDS = {"word/document.xml": "docx", "xl/workbook.xml": "xlsx"}
_XML_ENCODINGS = ("utf-8", "utf-16", "us-ascii", "iso-8859-1")
_CODECS = (
    *("ascii", "latin-1", "charmap", "cp1252", "mac-roman", "utf-8-sig"),
    *("utf-16", "utf-16-be", "utf-16-le", "utf-32", "gbk", "gb2312", "gb18030"),
    *("big5", "cp950", "cp932", "cp949", "shift-jis", "euc-jp", "euc-kr"),
)
_CHUNK = 64 * 1024
_SECONDS_KEPT = 0.1


class DocumentRefused(Exception):
    """The document was not read, or not completely; the text says why."""


class _RootReached(Exception):
    pass


def main(kind: str, bounds: Mapping[str, Any]) -> None:
    limit_resources(bounds)
    data = sys.stdin.buffer.read()
    problem = ""
    try:
        with explained():
            kind = checked_kind(kind, data, bounds)
            library = loaded(kind)
            close_doors()
            write_out(READERS[kind](library, data), bounds["text_bytes"])
    except DocumentRefused as refused:
        problem = str(refused)
    sys.stdout.buffer.write(b"\0" + problem.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def limit_resources(bounds: Mapping[str, Any]) -> None:
    """Limit time and memory: the parent may be gone and cannot kill this process."""
    import resource
    import signal

    seconds = int(bounds["seconds"]) + 1
    signal.alarm(seconds)
    _limit(resource.RLIMIT_CPU, seconds)
    _limit(resource.RLIMIT_CORE, 0)
    with suppress(ValueError):  # not every system limits the address space
        _limit(resource.RLIMIT_AS, bounds["memory_bytes"])


def close_doors() -> None:
    """Allow no further file descriptors: no files and no connections."""
    import resource

    _limit(resource.RLIMIT_NOFILE, 3)


def _limit(what: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


@contextmanager
def explained() -> Iterator[None]:
    """Turn every error into `DocumentRefused`."""
    try:
        yield
    except DocumentRefused:
        raise
    except MemoryError as error:
        raise DocumentRefused("It needs too much memory to read.") from error
    except Exception as error:  # the libraries raise whatever they stumble over
        raise DocumentRefused("It is damaged, or not the document it seems to be.") from error


def checked_kind(kind: str, data: bytes, bounds: Mapping[str, Any]) -> str:
    return _kind_of_archive(data, bounds) if kind == "zip" else kind


def loaded(kind: str) -> Any:
    """Import the library and everything it would import later, as no file can be opened then."""
    import codecs
    from importlib import import_module
    from pkgutil import walk_packages

    import_module(_OUR_OWN)
    for codec in _CODECS:
        codecs.lookup(codec)
    try:
        library = import_module(LIBRARIES[kind])
    except ImportError as error:
        raise DocumentRefused(
            f"Reading {kind} documents needs a package: pip install pypdf python-docx openpyxl."
        ) from error
    for part in walk_packages(getattr(library, "__path__", ()), f"{library.__name__}."):
        with suppress(ImportError):  # a part may need what is not installed
            import_module(part.name)
    return library


def write_out(lines: Iterator[str], room: int) -> None:
    """Flush regularly, so that the text so far survives if this process is killed."""
    from time import monotonic

    out, flushed = sys.stdout.buffer, 0.0
    for line in lines:
        piece = (line.replace("\0", "\ufffd") + "\n").encode("utf-8", "replace")
        out.write(piece[:room])
        room -= len(piece)
        if room < 0:
            raise DocumentRefused("Only the beginning of its text is shown; the rest is too long.")
        if monotonic() - flushed > _SECONDS_KEPT:
            out.flush()
            flushed = monotonic()


def _kind_of_archive(data: bytes, bounds: Mapping[str, Any]) -> str:
    """The kind of document in an archive that is safe to open."""
    from zipfile import BadZipFile, ZipFile

    if data.count(b"PK\x01\x02") > bounds["entries"]:
        raise DocumentRefused(
            f"It holds more than {bounds['entries']} parts, too many for a document."
        )
    try:
        archive = ZipFile(BytesIO(data))
    except BadZipFile as error:
        raise DocumentRefused("It is a damaged zip archive.") from error
    kinds = [kind for part, kind in _PART_KINDS.items() if part in archive.namelist()]
    if not kinds:
        raise DocumentRefused("It is a zip archive, but not a document.")
    _refuse_bomb(archive, len(data), bounds)
    for entry in archive.infolist():
        _refuse_declarations(archive, entry)
    return kinds[0]


def _refuse_bomb(archive: "ZipFile", size: int, bounds: Mapping[str, Any]) -> None:
    """Check declared sizes: no more than that is ever extracted."""
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    entries = archive.infolist()
    expanded = sum(entry.file_size for entry in entries)
    if any(entry.flag_bits & 1 for entry in entries):
        raise DocumentRefused("It is protected by a password.")
    if any(entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for entry in entries):
        raise DocumentRefused("It is packed in a way that documents are not.")
    if expanded > min(bounds["expanded_bytes"], bounds["ratio"] * size):
        raise DocumentRefused(
            f"It would unpack to {expanded} bytes, which is too much for a document."
        )


def _refuse_declarations(archive: "ZipFile", entry: "ZipInfo") -> None:
    """Refuse entity declarations, and encodings that could hide them. They can only come before
    the first element, so only that part is read."""
    from xml.parsers import expat

    def declare(*_: object) -> None:
        raise DocumentRefused("It declares XML entities, which is not allowed.")

    def declare_encoding(version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _XML_ENCODINGS:
            raise DocumentRefused(
                f"A part of it uses the encoding {encoding!r}, which is not supported."
            )

    def reach_root(*_: object) -> None:
        raise _RootReached

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = declare
    parser.XmlDeclHandler = declare_encoding
    parser.StartElementHandler = reach_root
    with archive.open(entry) as part:
        try:
            while chunk := part.read(_CHUNK):
                parser.Parse(chunk, False)
        except (_RootReached, expat.ExpatError):
            return  # harmless, or a picture: only XML declares entities


def _pdf(pypdf: Any, data: bytes) -> Iterator[str]:
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not _opens_without_password(pypdf, reader):
        raise DocumentRefused("It is protected by a password.")
    found = False
    for number, page in enumerate(reader.pages, start=1):
        try:
            text = page.extract_text().strip()
        except MemoryError:
            raise
        except Exception:  # the other pages may be fine
            text = "(This page could not be read.)"
        if text:
            found = True
            yield f"--- page {number} ---\n{text}"
    if not found:
        raise DocumentRefused(
            "There is no text in it: its pages are empty or pictures, perhaps scanned."
        )


def _opens_without_password(pypdf: Any, reader: Any) -> bool:
    try:
        return bool(reader.decrypt(""))
    except (pypdf.errors.DependencyError, NotImplementedError):
        return False


def _docx(docx: Any, data: bytes) -> Iterator[str]:
    from rookery.tools.documents.document_formats import word_lines

    document = docx.Document(BytesIO(data))
    found = False
    for text in word_lines(document.element.body, _style_names(document)):
        found = found or bool(text)
        yield text
    if not found:
        raise DocumentRefused("There is no text in it.")


def _style_names(document: Any) -> dict[str, str]:
    kinds = (relation.reltype for relation in document.part.rels.values())
    if not any(kind.endswith("/styles") for kind in kinds):
        return {}  # the library would fetch a file of its own instead
    return {style.style_id: style.name or "" for style in document.styles}


def _xlsx(openpyxl: Any, data: bytes) -> Iterator[str]:
    from zipfile import ZipFile

    from rookery.tools.documents.document_formats import sheet_lines

    book = openpyxl.load_workbook(BytesIO(data), read_only=True, data_only=True, keep_links=False)
    archive = ZipFile(BytesIO(data))
    for sheet in book.worksheets:
        if sheet.sheet_state == "visible":
            yield f"--- sheet {sheet.title} ---"
            sheet.reset_dimensions()  # they are what the document says they are
            yield from sheet_lines(sheet.iter_rows(), _links(archive, sheet._worksheet_path))


def _links(archive: "ZipFile", part: str) -> dict[str, str]:
    """Links of a sheet's cells. They come after its many rows, so they are read only if there
    are any."""
    from xml.etree.ElementTree import iterparse

    from rookery.tools.documents.document_formats import local_name

    part = part.removeprefix("/")
    folder, _, name = part.rpartition("/")
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in archive.namelist():
        return {}
    with archive.open(relations) as source:
        found = [element.attrib for _, element in iterparse(source)]
    targets = {each.get("Id", ""): each.get("Target", "") for each in found if "Target" in each}
    if not any(each.get("Type", "").endswith("/hyperlink") for each in found):
        return {}
    links: dict[str, str] = {}
    with archive.open(part) as source:
        for _, element in iterparse(source):
            if local_name(element) == "hyperlink":
                id = next((each for key, each in element.items() if key.endswith("}id")), "")
                links[element.get("ref", "").partition(":")[0]] = targets.get(id, "")
            elif local_name(element) == "row":
                element.clear()
    return links


def _ipynb(notebooks: Any, data: bytes) -> Iterator[str]:
    try:
        yield from notebooks.notebook_text(data.decode("utf-8-sig", "replace"))
    except notebooks.NotANotebook as error:
        raise DocumentRefused("It is not a notebook.") from error


READERS: Mapping[str, Callable[[Any, bytes], Iterator[str]]] = {
    "pdf": _pdf,
    "docx": _docx,
    "xlsx": _xlsx,
    "ipynb": _ipynb,
}

if __name__ == "__main__":
    import logging
    import warnings

    logging.disable()
    warnings.simplefilter("ignore")
    sys.path.append(str(Path(__file__).parents[3]))
    main(sys.argv[1], json.loads(sys.argv[2]))
