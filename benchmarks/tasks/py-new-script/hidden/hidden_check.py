import subprocess
import sys
from pathlib import Path


def run(name):
    done = subprocess.run([sys.executable, "count_lines.py", name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


assert run("poem.txt") == "4"
Path("other.txt").write_text("\n\na\n\nb", encoding="utf-8")
assert run("other.txt") == "2"
Path("empty.txt").write_text("", encoding="utf-8")
assert run("empty.txt") == "0"
