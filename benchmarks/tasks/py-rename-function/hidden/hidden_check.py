import subprocess
import sys
from pathlib import Path

import report
import storage

assert storage.load_records("people.json")[0] == {"name": "Ada"}
assert not hasattr(storage, "get_data")
assert report.names("people.json") == ["Ada", "Alan"]
for file in Path(".").glob("*.py"):
    if file.name != "hidden_check.py":
        assert "get_data" not in file.read_text(encoding="utf-8"), file
done = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True)
assert done.stdout.strip() == "2 Ada, Alan", done
storage.save("new.json", [1])
assert storage.load_records("new.json") == [1]
