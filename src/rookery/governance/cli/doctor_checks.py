"""What `rookery doctor` says of a governed folder: its intents, their ledger, and hooks."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rookery import NAME
from rookery.core.findings import Finding, Health
from rookery.core.limits import KIB, MIB
from rookery.core.settings import HookSettings
from rookery.governance.layout import Layout, find_layout
from rookery.platform.user_folders import Places

LONGEST_RECORD = MIB


def check_governed(workspace: Path, places: Places, hooks: HookSettings) -> Iterator[Finding]:
    """A line for each of these that there is. Nothing is made, and no ledger is read as a whole."""
    found = find_layout(workspace, workspace)
    if found.layout:
        yield check_intents(found.layout)
        yield from check_ledger(found.layout)
    elif found.notice:
        yield Finding("intents", Health.WARN, found.notice, f"{NAME} intents init")
    yield from check_hooks(workspace, found.layout, places, hooks)


def check_intents(layout: Layout) -> Finding:
    from rookery.governance.intents.intent import Status
    from rookery.governance.intents.intent_file import IntentReader, summary

    file = IntentReader(layout).read().file
    running = sum(each.status is Status.IN_PROGRESS for each in file.intents)
    text = f"{running} of {len(file.intents)} in progress."
    if not file.errors:
        return Finding("intents", Health.OK, text)
    health = Health.WARN if file.usable else Health.BAD
    return Finding("intents", health, f"{text} {summary(file)}", f"{NAME} intents validate")


def check_ledger(layout: Layout) -> Iterator[Finding]:
    """By its last record: whether all of it is whole takes the time to read all of it."""
    try:
        with layout.ledger.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - LONGEST_RECORD))
            end = opened.read(LONGEST_RECORD)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Finding("ledger", Health.BAD, f"It cannot be read ({error.strerror}).")
        return
    text = f"{max(1, size // KIB):,} KiB in {layout.shown(layout.ledger)}"
    if _ends_well(end):
        told = f"{text}; its last record is whole. All of it is looked at by {NAME} trace verify."
        yield Finding("ledger", Health.OK, told)
    else:
        broken = f"{text}; its last record is not whole."
        yield Finding("ledger", Health.WARN, broken, f"{NAME} trace verify")


def _ends_well(end: bytes) -> bool:
    from rookery.governance.ledger.traced import records_on

    if not end:
        return True
    *_, last = end.removesuffix(b"\n").split(b"\n")
    return end.endswith(b"\n") and bool(records_on(last))


def check_hooks(
    workspace: Path, layout: Layout | None, places: Places, settings: HookSettings
) -> Iterator[Finding]:
    from rookery.governance.external_hooks.hook_files import (
        HOOK_FILE,
        MANAGED_FILE,
        HookPlaces,
        find_hooks,
    )
    from rookery.governance.external_hooks.hook_trust import HookTrust
    from rookery.governance.layout import hook_trust_file
    from rookery.permissions.trust import TrustStore

    found = find_hooks(
        HookPlaces(
            workspace=workspace,
            managed=MANAGED_FILE,
            user=places.config / HOOK_FILE,
            import_claude=settings.import_claude,
            managed_only=settings.managed_only,
        )
    )
    if not found.hooks and not found.problems:
        return
    # asking where trust is kept would name a workspace that has no name yet
    unnamed = layout is not None and not (layout.state / "workspace_id").exists()
    nowhere = places.governance / "unnamed"
    kept = nowhere if unnamed else hook_trust_file(workspace, places)
    trusted = TrustStore(places.trust_file).trusts(workspace)
    trust = HookTrust(kept, workspace, workspace_trusted=trusted)
    counts = Counter(trust.status(each).may_run for each in found.hooks)
    text = f"{counts[True]} trusted, {counts[False]} untrusted."
    if found.problems:
        wrong = f"{text} {found.problems[0]}"
        yield Finding("hooks", Health.WARN, wrong, f"{NAME} hooks list")
    elif counts[False]:
        yield Finding("hooks", Health.WARN, text, f"{NAME} hooks list")
    else:
        yield Finding("hooks", Health.OK, text)
