"""What is kept of a governed workspace outside of it, where no agent can reach it."""

from pathlib import Path

from rookery.core.values import record
from rookery.storage.places import Places
from rookery.workspace.ledger.known_heads import workspace_key
from rookery.workspace.orchestration.layout import Layout


@record
class GovernedPlaces:
    folder: Path

    @property
    def heads(self) -> Path:
        """What this machine remembers of the ledger's end."""
        return self.folder / "heads.json"

    @property
    def hook_trust(self) -> Path:
        """Which hooks of the project the user has looked at."""
        return self.folder / "hook_trust.json"


def governed_places(layout: Layout, places: Places) -> GovernedPlaces:
    key = workspace_key(layout.state, layout.root)
    return GovernedPlaces(places.config / "governance" / key)
