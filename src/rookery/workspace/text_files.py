"""Bytes as text and back without losing one of them."""

import codecs
import hashlib

from rookery.engine.ports.workspace import FileBytes, FileText

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_INSPECTED = 8000
_DOCUMENTS = (b"%PDF-",)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decoded(path: str, data: bytes, size: int) -> FileText | FileBytes:
    """The file as text, if that is what its content is. With less than `size` bytes at hand
    only the beginning is known, and the hash of the whole is not.
    """
    name = sha(data) if len(data) == size else ""
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", "utf-8")
    )
    text = _text(data[len(mark) :], encoding)
    if text is None:
        return FileBytes(path=path, data=data, sha=name)
    return FileText(path=path, text=text, sha=name, encoding=encoding, bom=mark, size=size)


def _text(data: bytes, encoding: str) -> str | None:
    if encoding != "utf-8":
        return _strictly(data, encoding)
    if b"\0" in data[:_INSPECTED] or data.startswith(_DOCUMENTS):
        return None
    text = _strictly(data, encoding)
    if text is None and b"\0" not in data:
        return data.decode(encoding, "surrogateescape")
    return text


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None
