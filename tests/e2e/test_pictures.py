"""The pictures in the documents show what the product shows (`make docs` draws them)."""

import shutil
import sys
from pathlib import Path

import pytest

from rookery.sandbox.layers import PROGRAMS
from support.terminal_pictures import PICTURES, SCENES, drawn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox line is Linux's")


@pytest.mark.skipif(
    not shutil.which("bwrap", path=PROGRAMS), reason="bubblewrap, which a picture names, is missing"
)
@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_up_to_date(name: str, tmp_path: Path):
    assert drawn(SCENES[name](tmp_path)) == (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
