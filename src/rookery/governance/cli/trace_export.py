"""`rookery trace export`: the ledger as Agent Trace records, one on each line."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from rookery.governance.cli.trace_common import Desk, Ending, ledger_command, write_out
from rookery.governance.ledger.commit_notes import json_line
from rookery.governance.ledger.ledger_query import Query
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.traced import TracedRecord

FORMATS = ("agent-trace",)


@click.command("export")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="agent-trace", help="In which form."
)
@click.option("--intent", default="", help="Only what was done for this intent.")
@click.option("--strip", is_flag=True, help="Leave out what is only ours.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file to write; else it is printed."
)
@ledger_command
def export_command(desk: Desk, form: str, intent: str, strip: bool, output: Path | None) -> int:
    """Write the ledger out for other programs, as JSON Lines."""
    records = oldest(desk.folder, Query(intent=intent))
    write_out(output, agent_trace(records, strip=strip))
    return Ending.FINE


def agent_trace(records: Iterable[TracedRecord], *, strip: bool = False) -> Iterator[bytes]:
    """The records as lines; stripped, without our part."""
    for record in records:
        yield json_line(_stripped(record.raw) if strip else record.raw)


def _stripped(raw: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        name: held for name, held in raw.get("metadata", {}).items() if name != "orchestration"
    }
    rest = {name: held for name, held in raw.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest
