"""`rookery intents`: why something may be changed, and where. Said by people, kept by the gate."""

import os
from typing import Any

import click

from rookery import NAME
from rookery.core.governance_mode import GOVERNANCE_FOLDER
from rookery.governance.cli.intents_changes import (
    expand_command,
    pause_command,
    reopen_command,
    start_command,
)
from rookery.governance.cli.intents_check import check_command
from rookery.governance.cli.intents_close import close_command
from rookery.governance.cli.intents_common import (
    SAID,
    CommonOptions,
    GovernanceGroup,
    common,
    common_options,
)
from rookery.governance.cli.intents_coverage import coverage_command, map_command
from rookery.governance.cli.intents_list import list_command, show_command
from rookery.governance.cli.intents_new import new_command
from rookery.governance.cli.intents_validate import validate_command
from rookery.governance.git_files import bring_in_line
from rookery.governance.layout import Layout, init
from rookery.platform.user_folders import find_places
from rookery.storage.settings_files import find_settings

_LEDGER = {
    "ignore": "not under version control",
    "track": "under version control",
    "notes": "in git notes",
}


@click.group(cls=GovernanceGroup, invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Say what is to be done, where, and how one can tell that it is done; agents stay inside.
    Without a command the intents are listed."""
    said = {name: held for name, held in given.items() if ctx.get_parameter_source(name) in SAID}
    ctx.default_map = dict.fromkeys(command.commands, said)
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@click.command("init")
@common
def init_command(options: CommonOptions) -> int:
    """Begin to govern a folder: make the files that are needed, and no others."""
    settings = find_settings(find_places(os.environ).settings_file, None, os.environ, {}).settings
    vcs = settings.trace.vcs
    made = init(options.folder, vcs=vcs)
    mended = bring_in_line(Layout(options.folder, options.folder), vcs)
    said = f"created {GOVERNANCE_FOLDER}/ ({', '.join(made)})"
    brought = [f"brought in line with trace.vcs = {vcs}: {', '.join(mended)}"] if mended else []
    other = "ignore" if vcs == "track" else "track"
    options.say(
        said if made else f"{GOVERNANCE_FOLDER}/ has all it needs already",
        *brought,
        f"ledger: {_LEDGER[vcs]} (change with: {NAME} config set trace.vcs {other})",
    )
    options.tell(
        {
            "folder": str(options.folder),
            "created": list(made),
            "changed": list(mended),
            "ledger": vcs,
        }
    )
    return 0


for each in (
    init_command,
    list_command,
    new_command,
    show_command,
    start_command,
    pause_command,
    close_command,
    reopen_command,
    expand_command,
    validate_command,
    check_command,
    map_command,
    coverage_command,
):
    command.add_command(each)
