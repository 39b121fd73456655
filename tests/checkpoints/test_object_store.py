"""What the store of checkpoints keeps in memory."""

from pathlib import Path

import pytest

from rookery.checkpoints.object_store import ObjectStore
from rookery.errors import StorageError
from rookery.platform.git_objects import ObjectKind


def test_a_deleted_object_is_not_read_from_memory(tmp_path: Path):
    store = ObjectStore(tmp_path)
    known = store.add(ObjectKind.COMMIT, b"tree\n")
    store.flush()
    assert store.read(known, ObjectKind.COMMIT) == b"tree\n"
    store.keep_only([])
    assert known not in store
    with pytest.raises(StorageError, match="missing"):
        store.read(known, ObjectKind.COMMIT)
