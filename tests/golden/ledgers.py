"""Ledgers that are kept in `ledgers/`: how `record.py` makes them, and what is asked of them."""

import json
import signal
from collections.abc import Callable
from shutil import rmtree
from typing import Any, TypeAlias

from golden.frozen import git
from golden.normal import Line, Normaliser
from golden.resuming import names_of
from golden.scenarios import CRITERION, at, command
from llm_server import LlmServer, call
from support.governed_session import Governed, choose, intents, write
from support.terminal_session import Installed

Play: TypeAlias = Callable[[Installed], None]
CODE = "src/auth/jwt.py"
READ_CODE = call("read_file", path=CODE)
HUMAN = "import time\n"
WRITTEN = "import time\n\n\ndef verify(token):\n    return token is not None and len(token) == 32\n"
LEDGER = ".orchestration/agent_trace.jsonl"
ORIGINS = {"version control"}
"""Names of where a line comes from."""
QUESTIONS = (
    ("verify",),
    ("verify", "--strict"),
    ("stats",),
    ("blame", CODE),
    ("blame", f"{CODE}:4"),
    ("log", "--kind", "blocked"),
)


def _begun(rookery: Installed) -> Governed:
    """A repository of Ada's, in which the ledger is kept beside the code."""
    world = Governed(rookery, intents(more=CRITERION))
    world.put(CODE, HUMAN)
    world.put(".gitattributes", f"{LEDGER} merge=union\n")
    world.put(".gitignore", ".state/\n")
    git(world.root, "init", "-q", "-b", "main")
    _commit(world)
    return world


def _commit(world: Governed) -> None:
    git(world.root, "add", "-A")
    git(world.root, "commit", "-q", "-m", "work")


def branches(rookery: Installed) -> None:
    """Four tasks with a refusal, a rewind, a seal and a merge. Then a line is edited by hand."""
    world = _begun(rookery)
    first = [READ_CODE], [write(CODE, WRITTEN)], [write("src/api/a.py")], [write("src/api/b.py")]
    more = [command("echo hi > src/auth/note.txt")], [write("src/auth/done.py")]
    reported = world.play([choose()], *first, *more, book=["yes", "no keep to the scope"])
    assert world.cli("rewind", reported.task_id, "--last", "-y").returncode == 0
    assert world.cli("trace", "seal").returncode == 0
    world.put("src/auth/done.py")
    _commit(world)
    for branch in ("side", "main"):
        git(world.root, "checkout", "-q", *(["-b"] if branch == "side" else []), branch)
        world.play([choose()], [write(f"src/auth/{branch}.py")])
        _commit(world)
    git(world.root, "merge", "-q", "-m", "merged", "side")
    world.play([choose()], [write("src/auth/after.py")])
    world.put(CODE, "# by hand\n" + WRITTEN.replace("32", "64"))
    rmtree(rookery.home / "data" / "checkpoints")  # large, and no ledger needs them


def killed(rookery: Installed) -> None:
    """The process is gone when the file is changed, and what it did is recorded afterwards."""
    world = _begun(rookery)
    world.put("src/auth/done.py")
    change = call("edit", file_path=CODE, old_string="import time\n", new_string=WRITTEN)
    with LlmServer([choose()], [READ_CODE], [change]) as server:
        done = rookery.run("-p", "-y", *at(server), "go", ROOKERY_KILLPOINT="files.renamed:1")
    assert done.returncode == -signal.SIGKILL
    assert world.text(CODE) == WRITTEN
    assert world.cli("trace", "recover").returncode == 0


LEDGERS: dict[str, Play] = {each.__name__: each for each in (branches, killed)}


def asked(rookery: Installed) -> dict[str, Any]:
    """What the command says of a ledger, and of it when it has gone on."""
    world = Governed(rookery, None)
    normal = Normaliser(script=_words(rookery), names=names_of(rookery))
    answers = {" ".join(words): _answer(rookery, normal, *words) for words in QUESTIONS}
    order = [each["id"] for each in logged(rookery)]
    run = world.alone(
        [choose()], [write("src/auth/next.py")], flags=["--governance-allow", "unknown"]
    )
    return {
        "answers": answers,
        "order": order,
        "run": run.exit_code,
        "kinds": [_own(each)["kind"] for each in logged(rookery)],
        "verify after": _answer(rookery, normal, "verify"),
        "blame after": _answer(rookery, normal, "blame", CODE),
    }


def logged(rookery: Installed) -> list[Line]:
    """All records as the command gives them out, newest first."""
    done = rookery.run("trace", "log", "--json", "--all")
    records: list[Line] = json.loads(done.stdout)["records"]
    return records


def written(rookery: Installed) -> list[Line]:
    """All records as they stand in the files."""
    active = rookery.workspace / LEDGER
    files = [*active.parent.glob("trace/*"), active]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def _own(record: Line) -> Line:
    own: Line = record["metadata"]["orchestration"]
    return own


def _answer(rookery: Installed, normal: Normaliser, *words: str) -> Any:
    done = rookery.run("trace", *words, "--json")
    return {"exit": done.returncode, "told": normal(json.loads(done.stdout))}


def _words(rookery: Installed) -> set[str]:
    code = {*WRITTEN.splitlines(), *(rookery.workspace / CODE).read_text("utf-8").splitlines()}
    return code | ORIGINS | {"JWT authentication migration", "The file is there."}
