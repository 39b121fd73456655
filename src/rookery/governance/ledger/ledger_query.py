"""Which records somebody wants to see."""

from fnmatch import fnmatchcase

from msgspec import Struct

from rookery.governance.ledger.traced import TracedRecord

HOUSEKEEPING = frozenset({"stream_start", "checkpoint"})
"""Kinds that the ledger needs for its chain, and nobody else needs to read."""


class Query(Struct, frozen=True, kw_only=True):
    """What is empty asks for nothing. Times are compared as they are written: UTC, RFC 3339."""

    intent: str = ""
    task: str = ""
    call: str = ""
    """A call's own name: what was asked, decided and done about it."""
    file: str = ""
    """A pattern of a path that was changed, or that a call was aimed at which was refused."""
    kind: str = ""
    outcome: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    """To be found anywhere in the record."""
    without: frozenset[str] = frozenset()
    """Kinds that are left out."""

    @property
    def takes_all(self) -> bool:
        """Whether nothing is asked for, but that kinds are left out."""
        return self == Query(without=self.without)

    def matches(self, record: TracedRecord) -> bool:
        return (
            self.intent in {"", record.intent_id}
            and self.task in {"", record.task_id}
            and self.call in {"", record.tool_use_id}
            and self.kind in {"", record.kind}
            and record.kind not in self.without
            and self.outcome in {"", record.outcome}
            and (not self.since or record.time >= self.since)
            and (not self.until or record.time < self.until)
            and (not self.file or any(fnmatchcase(path, self.file) for path in record.paths))
            and (not self.text or self.text in _words(record))
        )


def _words(record: TracedRecord) -> str:
    said = (record.id, record.tool_name, record.command, record.error_code, record.approval)
    return " ".join((*said, *record.paths))
