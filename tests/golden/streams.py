"""The transcript of a scenario, as it is kept."""

from pathlib import Path

import golden.scenarios
from golden.normal import Line, Normaliser, without_pieces, words_of
from golden.resuming import names_of
from golden.scenarios import SCENARIOS, prepare
from support.terminal_session import Installed


def transcript(name: str, folder: Path) -> list[Line]:
    rookery = prepare(Installed(folder))
    code, lines = SCENARIOS[name](rookery)
    script = words_of(Path(golden.scenarios.__file__))
    normal = Normaliser(script=script, names=names_of(rookery))
    return [{"exit": code}, *map(normal, without_pieces(lines))]
