import subprocess
import sys


def run(*words):
    done = subprocess.run([sys.executable, "greet.py", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


assert run("Ada", "--upper") == ["HELLO, ADA!"]
assert run("Ada", "--times", "2") == ["Hello, Ada!", "Hello, Ada!"]
assert run("--upper", "--times", "2", "Bob") == ["HELLO, BOB!", "HELLO, BOB!"]
