"""Run as a script: the command, with the test's page in place of the built one."""

import os
import sys
from pathlib import Path

from rookery.cli.main import run
from rookery.manager.web import page_files

page_files.FOLDER = Path(os.environ.pop("PLAYED_PAGE"))
sys.exit(run(sys.argv[1:]))
