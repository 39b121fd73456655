import subprocess
import sys
from pathlib import Path

SOURCE = Path("numbers_tools.py").read_text(encoding="utf-8")
RIGHT = "return max(low, min(value, high))"
assert RIGHT in SOURCE


def passes(body):
    Path("numbers_tools.py").write_text(SOURCE.replace(RIGHT, body), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "unittest", "-q", "test_numbers"], capture_output=True)
    return done.returncode == 0


assert "clamp" in Path("test_numbers.py").read_text(encoding="utf-8")
assert passes(RIGHT), "the tests fail with the right function"
assert not passes("return min(value, high)"), "no test is below the range"
assert not passes("return max(low, value)"), "no test is above the range"
assert not passes("return low if value < high else high"), "no test is inside the range"
test = Path("test_numbers.py").read_text(encoding="utf-8")
assert "is_even(4)" in test
