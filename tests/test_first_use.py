"""Types of ours are prepared before threads read into them."""

import gc
import re
import subprocess
import sys
import weakref
from pathlib import Path

import msgspec

from rookery.first_use import prepared

SOURCE = Path(__file__).parents[1] / "src"
MANY_FIRST_USES = """
import sys, threading
import msgspec
from rookery.first_use import prepared

sys.setswitchinterval(1e-6)
FIELDS = {f"f{number}": "tuple[int, ...] | None" for number in range(40)}

def struct(name, fields):
    base = msgspec.Struct
    return type(base)(name, (base,), {"__annotations__": fields, **dict.fromkeys(fields)})

def read(kind, together):
    together.wait()
    for _ in range(5):
        assert msgspec.convert({"f1": [1], "inner": [{"a": 1}]}, prepared(kind)).f1 == (1,)

for number in range(300):
    globals()[f"Inner{number}"] = struct(f"Inner{number}", {"a": "int", "b": "list[str]"})
    kind = struct(f"Kind{number}", {**FIELDS, "inner": f"list[Inner{number}]"})
    together = threading.Barrier(8)
    threads = [threading.Thread(target=read, args=(kind, together)) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print("done")
"""
UNPREPARED = re.compile(
    r"\b(?:convert|decode)\(.*(?:type=|, )(?!True|False|None)(_?[A-Z][a-z]\w*)\)"
)


def test_threads_can_use_a_type_for_the_first_time_together():
    done = subprocess.run(
        [sys.executable, "-c", MANY_FIRST_USES],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_unused_types_are_freed():
    kind = msgspec.defstruct("Arguments", [("path", str)])
    assert msgspec.convert({"path": "a"}, prepared(kind)).path == "a"  # type: ignore[attr-defined]
    kept = weakref.ref(kind)
    del kind
    gc.collect()
    assert kept() is None


def test_everything_is_read_into_prepared_types():
    found = {
        path.name: UNPREPARED.findall(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")
    }
    only_in_tests = {"scripted.py": ["Script"]}
    assert {name: kinds for name, kinds in found.items() if kinds} == only_in_tests
