"""What is kept of a governed workspace outside of it, where no agent can reach it."""

import os
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rookery.governance.layout import Layout, find_layout
from rookery.governance.ledger.known_heads import HEADS, workspace_key
from rookery.platform.user_folders import Places


class GovernedPlaces(Struct, frozen=True):
    folder: Path

    @property
    def heads(self) -> Path:
        """What this machine remembers of the ledger's end."""
        return self.folder / HEADS

    @property
    def hook_trust(self) -> Path:
        """Which hooks of the project the user has looked at."""
        return self.folder / "hook_trust.json"


def governed_places(layout: Layout, places: Places) -> GovernedPlaces:
    kept = places.governance
    return GovernedPlaces(kept / workspace_key(layout.state, layout.root, kept))


def hook_trust_file(workspace: Path, places: Places) -> Path:
    """Where it is kept which hooks the user has looked at, also where there are no intents."""
    if layout := find_layout(workspace, workspace).layout:
        return governed_places(layout, places).hook_trust
    key = sha256(os.fsencode(workspace.resolve())).hexdigest()[:16]
    return places.governance / key / "hook_trust.json"
