"""One captured visit for each hostile folder, shared by the tests that look at it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.canaries import Visit, World, remove, tree
from support.hostile_repositories import HARMLESS_QUESTIONS, HOSTILE


class Visited:
    """A hostile folder that is not trusted, opened, asked about and left."""

    def __init__(self, folder: Path, plant: Callable[[World], None]) -> None:
        self.world = World(folder, trusted=False)
        plant(self.world)
        before = tree(self.world.workspace)
        self.visit: Visit = self.world.visit(*HARMLESS_QUESTIONS)
        self.unchanged = tree(self.world.workspace) == before


@pytest.fixture(scope="session")
def visited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Visited]]:
    known: dict[str, Visited] = {}

    def of(name: str) -> Visited:
        if name not in known:
            known[name] = Visited(tmp_path_factory.mktemp("hostile"), HOSTILE[name])
        return known[name]

    yield of
    for each in known.values():
        remove(each.world)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    remove(made)
