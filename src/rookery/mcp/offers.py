"""What a server offers: tools, prompts and resources."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct


class ToolOffer(msgspec.Struct, frozen=True, dict=True):
    """A tool as its server describes it, with everything hidden in the words made visible."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        scope = (self.name, self.description, self.schema)
        return hashlib.sha256(msgspec.json.encode(scope, order="sorted")).hexdigest()


class PromptArgument(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class PromptOffer(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ResourceOffer(Struct, frozen=True, kw_only=True):
    """Something that can be read; of a template the `uri` has places to fill in."""

    uri: str
    name: str = ""
    description: str = ""
    template: bool = False


class Catalogue(Struct, frozen=True, kw_only=True):
    tools: tuple[ToolOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    resources: tuple[ResourceOffer, ...] = ()
    notes: tuple[str, ...] = ()
    """What of it was left out, and why."""


def named(tools: Iterable[ToolOffer]) -> dict[str, ToolOffer]:
    return {tool.name: tool for tool in tools}
