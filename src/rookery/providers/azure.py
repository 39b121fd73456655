"""Azure OpenAI: chat completions at the address of the user's own resource.

The model is the name of a deployment. Which surface is called depends on whether
`AZURE_OPENAI_API_VERSION` is set, as in the vendor's own kit.
"""

import os
from urllib.parse import quote

from rookery.engine.ports.model import ModelRequest
from rookery.errors import SettingsError
from rookery.providers.exchange import Question, WireProvider
from rookery.providers.openai import ChatReading, body
from rookery.providers.vendors import Vendor

ENTRA_TOKEN = "AZURE_OPENAI_AD_TOKEN"
API_VERSION = "AZURE_OPENAI_API_VERSION"
_CURRENT = Vendor(output_limit="max_completion_tokens", cache_key=True)
_DATED = Vendor(output_limit="max_completion_tokens")


def headers(api_key: str) -> dict[str, str]:
    if api_key and api_key == os.environ.get(ENTRA_TOKEN, "").strip():
        return {"authorization": f"Bearer {api_key}"}
    return {"api-key": api_key} if api_key else {}


def address(template: str) -> str:
    example = template.format(resource="my-resource")
    raise SettingsError(
        "No address for azure. Set AZURE_OPENAI_ENDPOINT to that of your resource, "
        f"for example {example}."
    )


class AzureProvider(WireProvider):
    def ask(self, request: ModelRequest) -> Question:
        version = os.environ.get(API_VERSION, "").strip()
        payload = body(request, self.model, _DATED if version else _CURRENT, self.effort)
        return _path(self.model.id, version), payload, ChatReading(self.model)


PROVIDER = AzureProvider


def _path(deployment: str, version: str) -> str:
    if not version:
        return "/openai/v1/chat/completions"
    place = f"/openai/deployments/{quote(deployment, safe='')}/chat/completions"
    return f"{place}?api-version={quote(version, safe='')}"
