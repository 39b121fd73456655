"""Small real documents, and archives that only look like documents."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime

import docx
import openpyxl
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def pdf(*pages: str) -> bytes:
    """A PDF with one line of Latin text on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources "
            f"<< /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    return assembled_pdf([text.encode("latin-1") for text in objects])


def assembled_pdf(objects: Sequence[bytes]) -> bytes:
    data, places = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", list[int]()
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return (
        data
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        % (
            size,
            table,
            size,
        )
        + b"startxref\n%d\n%%%%EOF\n" % len(data)
    )


def word_document() -> bytes:
    document = docx.Document()
    document.add_heading("Prices", 0)
    document.add_heading("Of birds", 2)
    document.add_paragraph("A rook costs 5 €.")
    table = document.add_table(2, 2)
    for place, text in {(0, 0): "bird", (0, 1): "price", (1, 0): "rook\nblack"}.items():
        table.cell(*place).text = text
    document.add_paragraph("feed", style="List Bullet")
    document.add_paragraph("The end.")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


WORD_TEXT = """\
# Prices
## Of birds
A rook costs 5 €.
bird | price
rook black | 
- feed
The end.
"""


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Birds"
    sheet.append(["rook", 1, 2.5, True, None])
    sheet.append([None, None])
    sheet.append([date(2024, 3, 1), datetime(2024, 3, 1, 12, 30), "#DIV/0!", "a\nb\tc"])
    sheet.append(["site", CellRichText("plain ", TextBlock(InlineFont(b=True), "bold"))])
    sheet["A4"].hyperlink = "https://example.org/rooks"
    hidden = book.create_sheet("Hidden")
    hidden["A1"] = "secret"
    hidden.sheet_state = "hidden"
    book.create_sheet("Empty")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


WORKBOOK_TEXT = """\
--- sheet Birds ---
rook\t1\t2.5\tTRUE
2024-03-01\t2024-03-01 12:30:00\t[#DIV/0!]\ta b c
site (https://example.org/rooks)\tplain bold
--- sheet Empty ---
"""


def archive(parts: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return file.getvalue()


def word_archive(body: str | bytes, prolog: str = "", **more: str | bytes) -> bytes:
    """A minimal word-processing document with one paragraph."""
    if isinstance(body, str):
        text = f"<w:p><w:r><w:t>{body}</w:t></w:r></w:p>"
        body = f'{prolog}<w:document xmlns:w="{W}"><w:body>{text}</w:body></w:document>'.encode()
    return archive(
        {
            **_package("word/document.xml", "wordprocessingml.document"),
            "word/document.xml": body,
            **more,
        }
    )


def sheet_archive(rows: str, prolog: str = "") -> bytes:
    """A minimal workbook, with the rows as XML."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return archive(
        {
            **_package("xl/workbook.xml", "spreadsheetml.sheet"),
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{_OFFICE}"><sheets>'
            '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
            f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/s.xml"/>'
            "</Relationships>",
            "xl/worksheets/s.xml": f'{prolog}<worksheet xmlns="{main}"><sheetData>{rows}'
            "</sheetData></worksheet>",
        }
    )


def _package(main: str, kind: str) -> dict[str, str]:
    mime = f"application/vnd.openxmlformats-officedocument.{kind}.main+xml"
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
    return {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{main}" ContentType="{mime}"/>'
        f'<Override PartName="/xl/worksheets/s.xml" ContentType="{sheet}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_OFFICE}/officeDocument" Target="{main}"/></Relationships>',
    }
