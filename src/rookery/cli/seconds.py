"""A number of seconds on a command line."""

import math
from typing import Any

import click


class Seconds(click.FloatRange):
    """What is not a number passes every comparison with one, so it has to be looked for."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds

    def _describe_range(self) -> str:
        return ""
