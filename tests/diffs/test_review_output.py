"""A review as text, JSON and SARIF."""

import json
from typing import Any

import jsonschema

from rookery.core.text.terminal_text import Paint
from rookery.diffs.findings import ReviewFinding, ReviewResult, as_json, as_sarif, as_text
from rookery.diffs.review_parts import LeftOut
from rookery.diffs.unified import DiffFile

PATH = b"src/caf\xe9 1.py".decode("utf-8", "surrogateescape")
FILE = DiffFile(path=PATH, old_path=PATH)
RESULT = ReviewResult(
    title="uncommitted changes",
    session_id="3f0c3a5e",
    findings=[
        ReviewFinding(
            severity="error",
            path=FILE.name,
            line=3,
            end_line=5,
            title="Divides by zero",
            explanation="f(0) raises.\n  code stays",
            suggestion="Check x.",
        ),
        ReviewFinding(severity="note", path=FILE.name, line=9, title="Odd", explanation=""),
    ],
    summary="Look\x1b[31m at it.",
    files=[FILE],
    left_out=[LeftOut("a.lock\x1b", "generated")],
    dropped=1,
)


def test_text_has_a_line_with_place_and_severity_for_each_finding():
    assert as_text(RESULT, Paint(False)) == (
        "1. src/caf\\udce9 1.py:3-5: error: Divides by zero\n"
        "   f(0) raises.\n     code stays\n   Suggestion: Check x.\n\n"
        "2. src/caf\\udce9 1.py:9: note: Odd\n\n"
        "Look␛[31m at it.\n"
        "1 error, 1 note in 1 file.\n"
        "Left out: a.lock␛ (generated).\n"
        "Dropped: 1 finding about files that are not in the change."
    )


def test_json_has_all_of_it():
    told = json.loads(as_json(RESULT))
    assert (told["version"], told["complete"], told["dropped"]) == (1, True, 1)
    assert [each["severity"] for each in told["findings"]] == ["error", "note"]
    assert told["findings"][1]["end_line"] == 9


def only(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


def several(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT, LINE = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 1}
MESSAGE = only("text", text=TEXT)
LEVEL = {"enum": ["none", "note", "warning", "error"]}
URI = {"type": "string", "pattern": "^[A-Za-z0-9._~/%-]+$"}
RULE = only(
    "id",
    id=TEXT,
    name=TEXT,
    shortDescription=MESSAGE,
    defaultConfiguration=only("level", level=LEVEL),
)
PLACE = only(
    "artifactLocation region",
    artifactLocation=only("uri", uri=URI),
    region=only("startLine", startLine=LINE, endLine=LINE),
)
SARIF = only(
    "version runs",
    **{"$schema": TEXT},
    version={"const": "2.1.0"},
    runs=several(
        only(
            "tool results",
            tool=only("driver", driver=only("name", name=TEXT, version=TEXT, rules=several(RULE))),
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            invocations=several(
                only(
                    "executionSuccessful",
                    executionSuccessful={"type": "boolean"},
                    toolExecutionNotifications=several(
                        only("message", level=LEVEL, message=MESSAGE)
                    ),
                )
            ),
            automationDetails=only("id", id=TEXT),
            results=several(
                only(
                    "message",
                    ruleId=TEXT,
                    ruleIndex={"type": "integer", "minimum": 0},
                    level=LEVEL,
                    message=MESSAGE,
                    locations=several(only("physicalLocation", physicalLocation=PLACE)),
                    partialFingerprints={"type": "object"},
                )
            ),
        )
    ),
)
"""The part of the SARIF 2.1.0 schema that we use."""


def test_sarif_output_is_valid():
    told = json.loads(as_sarif(RESULT))
    jsonschema.validate(told, SARIF)
    [run] = told["runs"]
    first = run["results"][0]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"]
    [place] = first["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/caf%E9%201.py"},
        "region": {"startLine": 3, "endLine": 5},
    }
