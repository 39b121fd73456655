"""Known heads of a ledger that is under version control, and that another branch holds.

Whoever checks out another branch has another version of the ledger. That is no loss: git still has
the records. What the commit that is checked out holds itself must be in the file, though.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rookery.governance.ledger.git_history import GitFailed, GitHistory, history_of
from rookery.governance.ledger.segments import ACTIVE
from rookery.governance.ledger.verification import Finding, KnownHead, Report
from rookery.governance.ledger.verify_ledger import Tip

MOST_REFS = 200


def verified_with_branches(
    folder: Path, known: KnownHead | None, verify: Callable[[KnownHead | None], Report]
) -> Report:
    """The report on a ledger, in which heads on other branches are not missing."""
    report = verify(known)
    missing = any(finding.code == "known-head" for finding in report.findings)
    if known is None or not missing:
        return report
    away = on_other_branches(folder, known.tips)
    if not away:
        return report
    here = tuple(tip for tip in known.tips if tip not in away)
    again = verify(known._replace(tips=here))
    text = f"{len(away)} known head{'' if len(away) == 1 else 's'} on another branch, not here"
    return again._replace(findings=(*again.findings, Finding("INFO", "other-branch", text)))


def on_other_branches(folder: Path, tips: Sequence[Tip]) -> set[Tip]:
    """Those that are in a version of some branch, tag or stash, and not in the one of HEAD."""
    git = history_of(folder.parent)
    if git is None:
        return set()
    paths = (f"{folder.name}/{ACTIVE}", f"{folder.name}/trace/")
    try:
        held = set(git.blobs_at("HEAD", *paths))
        others = {blob for ref in git.refs(MOST_REFS) for blob in git.blobs_at(ref, *paths)}
        found = _named_in(git, others - held, tips)
        return found - _named_in(git, held, tips)
    except GitFailed:
        return set()


def _named_in(git: GitHistory, blobs: Iterable[str], tips: Sequence[Tip]) -> set[Tip]:
    found: set[Tip] = set()
    for blob in blobs:
        text = git.note_text(blob)
        found |= {tip for tip in tips if f'"hash":"{tip[2]}"'.encode() in text}
    return found
