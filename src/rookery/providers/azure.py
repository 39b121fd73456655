"""Azure OpenAI: chat completions at the address of the user's own resource.

The model is the name of a deployment. Which surface is called depends on whether
`AZURE_OPENAI_API_VERSION` is set, as in the vendor's own kit.
"""

import os
from urllib.parse import quote

from rookery.core.limits import Effort
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.errors import SettingsError
from rookery.providers.exchange import Endpoint, Exchange
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


class AzureProvider:
    def __init__(self, endpoint: Endpoint, model: ModelInfo, effort: Effort) -> None:
        self.model = model
        self._endpoint = endpoint
        self._effort: Effort = effort

    def stream(self, request: ModelRequest) -> Exchange:
        version = os.environ.get(API_VERSION, "").strip()
        payload = body(request, self.model, _DATED if version else _CURRENT, self._effort)
        path = _path(self.model.id, version)
        return self._endpoint.ask(path, payload, ChatReading(self.model))

    async def aclose(self) -> None:
        await self._endpoint.aclose()


PROVIDER = AzureProvider


def _path(deployment: str, version: str) -> str:
    if not version:
        return "/openai/v1/chat/completions"
    place = f"/openai/deployments/{quote(deployment, safe='')}/chat/completions"
    return f"{place}?api-version={quote(version, safe='')}"
