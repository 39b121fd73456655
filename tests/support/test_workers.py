import os
import subprocess
import sys
from pathlib import Path

OPTIONS = """
from support import workers

def pytest_addoption(parser):
    workers.add_options(parser)

def pytest_runtestloop(session):
    workers.run_in_workers(session, workers.worker_count(session.config))
    return True
"""
DIES = """
import os

def test_before(): pass
def test_dies(): os._exit(3)
def test_after(): pass
"""
FAILS = """
import os

def test_fails(tmp_path):
    print("printed")
    assert not tmp_path.exists(), "written down"
def test_runs_in_another_process():
    assert os.getpid() != int(os.environ["COLLECTED_IN"])
"""
KEEPS_A_FILE_OPEN = """
class Ring:
    def __init__(self):
        self.ring = self
        self.file = open(__file__)

def test_keeps_a_file_open():
    Ring()
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(
        OPTIONS + "\nimport os\nos.environ['COLLECTED_IN'] = str(os.getpid())\n", encoding="utf-8"
    )
    (folder / "test_one.py").write_text(DIES, encoding="utf-8")
    (folder / "test_two.py").write_text(FAILS, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )


def test_all_tests_run_and_a_dead_worker_fails_only_its_current_test(tmp_path: Path):
    said = run(tmp_path, "--workers", "2").stdout
    assert "2 failed, 3 passed" in said
    assert "The worker died while it ran this test." in said
    assert "Captured stdout call" in said
    assert "AssertionError: written down" in said


def test_an_unclosed_file_fails_the_run(tmp_path: Path):
    (tmp_path / "test_kept.py").write_text(KEEPS_A_FILE_OPEN, encoding="utf-8")
    ended = run(tmp_path, "--workers", "1", "-W", "error", "-k", "keeps")
    assert "1 passed" in ended.stdout
    assert "unclosed file" in ended.stderr
    assert ended.returncode == 1


def test_the_option_x_stops_after_the_first_failure(tmp_path: Path):
    said = run(tmp_path, "--workers", "1", "--each-test", "-x").stdout
    assert "1 failed, 1 passed" in said
    assert "stopping after 1 failures" in said
