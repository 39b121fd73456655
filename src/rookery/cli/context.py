"""`rookery context`: what the model gets in a folder, with sizes and origins."""

import json
from pathlib import Path

import click
from msgspec import to_builtins
from msgspec.structs import replace

from rookery.app.temporary_host import NO_MODEL, query_host
from rookery.cli.command_line import folder_option, json_option
from rookery.core.queries import AskContext
from rookery.core.text.characters import whole_values
from rookery.protocol.context_text import context_lines


@click.command()
@folder_option("The workspace folder.")
@json_option
def command(workspace: Path, as_json: bool) -> int:
    """List what the first request contains: rules, modes, skills, tools; and what is not used.

    Starts no MCP server and calls no model. Tokens are estimates.
    """
    known = query_host(workspace, AskContext(), usual_model=True)
    if known.model == NO_MODEL.model:
        known = replace(known, model="")
    if as_json:
        print(json.dumps(whole_values(to_builtins(known))))
    else:
        print(*context_lines(known), sep="\n")
    return 0
