"""The help of a command with many options: under headings, not in one list."""

from collections.abc import Mapping, Sequence

import click

OTHERS = "Other options"


class GroupedCommand(click.Command):
    """A command whose options are shown under the headings that `groups` has for their names."""

    groups: Mapping[str, Sequence[str]] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*self.groups, OTHERS)}
        headings = {name: heading for heading, names in self.groups.items() for name in names}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if row:
                rows[headings.get(parameter.name or "", OTHERS)].append(row)
        for heading, lines in rows.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)
