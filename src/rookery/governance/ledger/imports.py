"""Records of other writers as entries of ours. What they said of themselves is kept beside."""

from msgspec.structs import replace

from rookery.governance.ledger.records import Contributor, Entry, Kind, Related, TracedFile
from rookery.governance.ledger.traced import TracedRecord

_CONTRIBUTORS: dict[str, Contributor] = {
    "ai": "ai",
    "human": "human",
    "mixed": "mixed",
    "unknown": "unknown",
}
_LONGEST = 2_000


def imported(record: TracedRecord, *, task_id: str, source: str) -> Entry:
    """An entry that says what the record said; `source` is the name of the file it came from."""
    kind: Kind = "mutation" if record.files else "external"
    about = {
        "writer": record.writer,
        "id": record.id,
        "time": record.time,
        "kind": record.kind,
        "task": record.task_id,
        "revision": record.revision,
        "source": source,
    }
    return Entry(
        kind=kind,
        task_id=task_id,
        intent_id=record.intent_id[:_LONGEST],
        tool_name=record.tool_name[:_LONGEST],
        files=tuple(map(_bare, record.files)),
        contributor=_CONTRIBUTORS.get(record.contributor, "unknown"),
        model_id=record.model_id[:_LONGEST],
        related=tuple(
            Related(type=each.type[:_LONGEST], url=each.url[:_LONGEST])
            for each in record.related
            if each.type != "intent"
        ),
        more={"imported": {name: held[:_LONGEST] for name, held in about.items() if held}},
    )


def imported_id(record: TracedRecord) -> str:
    """The id that an imported record had where it came from; empty for others."""
    metadata = record.raw.get("metadata")
    own = metadata.get("orchestration") if isinstance(metadata, dict) else None
    about = own.get("imported") if isinstance(own, dict) else None
    told = about.get("id") if isinstance(about, dict) else None
    return told if isinstance(told, str) else ""


def _bare(file: TracedFile) -> TracedFile:
    """Hashes of lines are kept as they are, whatever they were made with."""
    return replace(file, attribution="imported")
