"""How well the word search alone finds the right file, for questions about this program."""

import shutil
from pathlib import Path

import pytest

from rookery.code_index.code_index import CodeIndex
from rookery.code_index.syntax import SyntaxReader
from rookery.core.limits import Limits
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.source_files import WorkspaceSources

from .conftest import ask, paths

pytestmark = pytest.mark.anyio

SOURCE = Path(__file__).parents[2] / "src" / "rookery"
PLACES = 5
SHARE = 0.84

QUESTIONS = """
where is it decided what the task does next                 core/next_step.py
fold the events of a task into the conversation the model sees core/folds/history.py
find the program ripgrep for searching                      workspace/search.py
rules of .gitignore when walking through folders            workspace/tree.py
is this path a credential file                              core/protected_paths.py
how long to wait after a rate limit from response headers   providers/provider_errors.py
parse server sent events                                    providers/wire_format.py
list the sessions of a workspace on the command line        storage/cli/list.py
kill a process group when a command times out               platform/warden.py
landlock system calls to confine commands                   sandbox/confine.py
read text out of pdf and word documents                     tools/documents/document_worker.py
apply a patch with several files                            tools/apply_patch.py
search and replace with fuzzy matching of lines             core/text/literal_edits.py
ask the user a follow-up question                           tools/conversation.py
undo changes of files since an earlier checkpoint           checkpoints/checkpoint_restore.py
where are settings files merged and validated               storage/settings_files.py
API keys stored on disk                                     storage/keys.py
a damaged journal is cut back and recovered                 storage/journal_lines.py
full text search over past tasks in sqlite                  storage/index.py
preview of command output with head and tail                core/text/output_preview.py
summarise conversation when the context window is full      engine/context.py
does the user trust this folder                             permissions/trust.py
detect mime type and size of images                         core/blocks.py
judge whether a shell command is harmless                   commands/judge.py
models and their prices                                     providers/catalogue.py
"""


async def test_most_questions_find_their_file_among_the_first(tmp_path: Path, parser: SyntaxReader):
    rows = [line.rsplit(maxsplit=1) for line in QUESTIONS.strip().splitlines()]
    root = tmp_path / "work"
    copy_some(root, {file for _, file in rows})
    files = WorkspaceFiles(root, Limits(), home=tmp_path)
    sources = WorkspaceSources(files, Limits())
    index = CodeIndex(tmp_path / "cache", sources, parser, patience=120)
    missed: list[str] = []
    for question, file in rows:
        assert (root / file).exists()
        if file not in paths(await ask(index, question))[:PLACES]:
            missed.append(question.strip())
    index.close()
    assert len(rows) - len(missed) >= SHARE * len(rows), missed


def copy_some(root: Path, wanted: set[str]) -> None:
    """Copy the wanted files and a third of the others, since all would take long to index."""
    for number, file in enumerate(sorted(SOURCE.rglob("*.py"))):
        path = file.relative_to(SOURCE).as_posix()
        if path in wanted or number % 3 == 0:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / path)
