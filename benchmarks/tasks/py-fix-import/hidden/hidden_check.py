import subprocess
import sys
from pathlib import Path

done = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert done.stdout.split("\n")[:2] == ["Hello, Ada!", "Goodbye."], done.stdout
assert Path("greetings.py").exists()
