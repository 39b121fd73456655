"""The page's own checks: types, unit tests, and that the build matches the sources."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WEB = Path(__file__).parents[3] / "web"
PAGE = WEB.parent / "src" / "rookery" / "manager" / "web" / "page"
SECONDS = 240
SPACES = {0, 1, 2, 4, 6, 8, 12, 16, 19, 24, 30, 32, 48}
"""Pixels between and in boxes; 19 and 30 line text up with what is above it."""


def copy_of_the_page(tmp_path: Path) -> Path:
    """Like a clone: arbitrary file times and no Node packages."""
    copied = tmp_path / "clone"
    for part in ("web", "docs/schemas", "src/rookery/manager/web/page"):
        unwanted = shutil.ignore_patterns("node_modules", "__pycache__")
        shutil.copytree(WEB.parent / part, copied / part, ignore=unwanted)
    for number, path in enumerate(sorted(copied.rglob("*"))):
        os.utime(path, (number, number))
    return copied


def build_without_node(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    programs = clone / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("sh", "cat", "dirname"):
        found = shutil.which(name)
        assert found
        link = programs / name
        if not link.exists():
            link.symlink_to(found)
    return subprocess.run(
        ["sh", "web/build.sh", *words],
        cwd=clone,
        env={"PATH": str(programs), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_built_page_is_in_the_repository_and_matches_its_sources():
    digest = subprocess.run(
        [sys.executable, WEB / "sources_digest.py"], capture_output=True, text=True, check=True
    )
    assert (PAGE / "index.html").exists()
    assert (PAGE / "sources.sha256").read_text() == digest.stdout, "run make web"
    ignored = subprocess.run(
        ["git", "check-ignore", PAGE / "index.html"], cwd=WEB, capture_output=True, check=False
    )
    assert ignored.returncode, "the built page is ignored by git"


def test_node_is_needed_only_for_a_page_that_does_not_match_its_sources(tmp_path: Path):
    clone = copy_of_the_page(tmp_path)
    done = build_without_node(clone)
    assert (done.returncode, done.stderr) == (0, "")
    with (clone / "web" / "src" / "app.tsx").open("a") as source:
        source.write("// changed\n")
    done = build_without_node(clone)
    assert done.returncode == 1
    assert "make web" in done.stderr
    assert build_without_node(clone, "--if-possible").returncode == 0


@pytest.mark.parametrize("check", [["tsc", "--noEmit"], ["vitest", "run"]], ids=" ".join)
def test_the_page_passes_its_own_checks(check: list[str]):
    if not shutil.which("node"):
        pytest.skip("Node, which makes the page, is not here")
    if not (WEB / "node_modules").exists():
        pytest.skip("the page's packages are not installed: sh web/build.sh --anew")
    program, *words = check
    done = subprocess.run(
        [WEB / "node_modules" / ".bin" / program, *words],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_load_with_its_typeface_is_small_and_the_terminal_comes_later():
    index = (PAGE / "index.html").read_text()
    loaded = [PAGE / name for name in re.findall(r'"/?(assets/[^"]+\.(?:js|css))"', index)]
    assert len(loaded) >= 2
    fonts = list(PAGE.glob("assets/inter-latin-?00-*.woff2"))
    assert len(fonts) == 2
    sizes = [len(gzip.compress(path.read_bytes())) for path in [*loaded, *fonts]]
    assert sum(sizes) < 90_000
    scripts = [path for path in loaded if path.suffix == ".js"]
    assert not [path for path in scripts if "xterm" in path.read_text(encoding="utf-8")]


def test_styles_use_the_scale_of_spaces_and_two_weights():
    for path in (WEB / "src").rglob("*.css"):
        rules = path.read_text(encoding="utf-8")
        spaces = re.findall(
            r"(?<![\w-])(?:(?:row-|column-)?gap|(?:padding|margin)[a-z-]*): (.+);", rules
        )
        sizes = {int(size) for value in spaces for size in re.findall(r"(\d+)px", value)}
        assert sizes <= SPACES, path
        weights = set(re.findall(r"font-weight: (.+);", rules))
        assert weights <= {"var(--strong)", "var(--regular)", "inherit"} or path.stem == "fonts", (
            path
        )
