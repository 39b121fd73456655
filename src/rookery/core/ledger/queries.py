"""Which records somebody wants to see."""

from fnmatch import fnmatchcase

from rookery.core.ledger.traced import TracedRecord
from rookery.core.values import value


@value
class Query:
    """What is empty asks for nothing. Times are compared as they are written: UTC, RFC 3339."""

    intent: str = ""
    task: str = ""
    call: str = ""
    """A call's own name: what was asked, decided and done about it."""
    file: str = ""
    """A pattern of a path."""
    kind: str = ""
    outcome: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    """To be found anywhere in the record."""

    def matches(self, record: TracedRecord) -> bool:
        return (
            self.intent in {"", record.intent_id}
            and self.task in {"", record.task_id}
            and self.call in {"", record.tool_use_id}
            and self.kind in {"", record.kind}
            and self.outcome in {"", record.outcome}
            and (not self.since or record.time >= self.since)
            and (not self.until or record.time < self.until)
            and (not self.file or any(fnmatchcase(file.path, self.file) for file in record.files))
            and (not self.text or self.text in _words(record))
        )


def _words(record: TracedRecord) -> str:
    paths = " ".join(file.path for file in record.files)
    said = (record.id, record.tool_name, record.command, record.error_code, record.approval, paths)
    return " ".join(said)
