"""A home folder, settings and a project, filled with files."""

from pathlib import Path

from rookery.prompting.config_files import ConfigPlaces
from rookery.workspace.boundaries import Boundaries


class ConfigBench:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = self.home / ".config" / "product"
        self.root = folder / "project"
        self.outside = folder / "elsewhere"
        for made in (self.config, self.root, self.outside):
            made.mkdir(parents=True)

    @property
    def boundaries(self) -> Boundaries:
        return Boundaries(self.root, home=self.home, own=[self.config])

    def places(self, *, trusted: bool = True, other_agents: bool = True) -> ConfigPlaces:
        at = (self.config, self.home, self.boundaries)
        return ConfigPlaces(*at, trusted=trusted, other_agents=other_agents)

    def put(self, path: str, text: str | bytes) -> Path:
        """Write a file of the project, of the user (`~/…`, `config/…`), or `elsewhere/…`."""
        top, _, rest = path.partition("/")
        places = {"~": self.home, "config": self.config, "elsewhere": self.outside}
        file = places[top] / rest if top in places else self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def link(self, path: str, target: Path | str) -> None:
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
