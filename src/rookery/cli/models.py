"""`rookery models`: what can be called from here."""

import json
import os

import anyio
import click

from rookery import NAME
from rookery.providers import KEY_VARIABLES, known_models
from rookery.storage.keys import find_key
from rookery.storage.places import find_places


@click.command()
@click.option("--format", "form", type=click.Choice(["json", "text"]), default="text")
def command(form: str) -> int:
    """Print the models of the providers you have a key for, and of servers on this machine."""
    from rookery.providers.discovery import local_servers

    keys_file = find_places(os.environ).keys_file
    offers: dict[str, list[str]] = {}
    for provider, variable in KEY_VARIABLES.items():
        if find_key(
            provider, flag=None, variable=variable, environ=os.environ, keys_file=keys_file
        ):
            offers[provider] = list(known_models(provider))
    local = anyio.run(local_servers)
    offers |= {server.provider: list(server.models) for server in local}
    print(json.dumps({"models": offers}) if form == "json" else _text(offers))
    return 0


def _text(offers: dict[str, list[str]]) -> str:
    if not offers:
        variables = ", ".join(dict.fromkeys(KEY_VARIABLES.values()))
        return (
            "No model is at hand: no key is set and no local server answers.\n"
            f"Set one of {variables}, or start Ollama, LM Studio or vLLM on its usual port.\n"
            f"{NAME} demo works without a model."
        )
    lines = [f"{provider}\t{model}" for provider, models in offers.items() for model in models]
    provider, model = next((p, m) for p, models in offers.items() for m in models or ["MODEL"])
    return "\n".join([*lines, "", f'Use one with: {NAME} --provider {provider} -m {model} "task"'])
