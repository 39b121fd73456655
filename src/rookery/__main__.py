"""The command. Which part of it is needed is decided before anything else is imported."""

import sys

from rookery import NAME, VERSION


def main() -> int:
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"{NAME} {VERSION}")
        return 0
    try:
        from rookery.cli.main import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to stop
        return 130


if __name__ == "__main__":
    sys.exit(main())
