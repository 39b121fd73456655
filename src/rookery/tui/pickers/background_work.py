"""Work that a widget does beside everything else."""

from textual.dom import DOMNode
from textual.worker import WorkType


def do_latest(of: DOMNode, work: WorkType[None]) -> None:
    """Do this instead of what was begun before it and is no longer of interest."""
    of.run_worker(work, exclusive=True)


def do_beside(of: DOMNode, work: WorkType[None]) -> None:
    of.run_worker(work, group="beside")
