"""Which search engine the settings and the model choose."""

from pathlib import Path

import pytest

from rookery.app.model_choice import ModelChoice
from rookery.app.search_choice import SearchChoice
from rookery.core.limits import Limits
from rookery.core.settings import Settings
from rookery.core.settings_sections import WebSearchEngine, WebSettings
from rookery.storage.keys import save_key

CHOICES: dict[tuple[WebSearchEngine | None, str, str | None], tuple[str, str]] = {
    (None, "anthropic", None): ("provider", ""),
    (None, "openai", None): ("provider", ""),
    (None, "openai", "http://127.0.0.1:8000/v1"): ("", ""),
    (None, "ollama", None): ("", ""),
    ("provider", "anthropic", "https://gateway.example"): ("provider", ""),
    ("provider", "mistral", None): ("provider", "mistral has no search of its own"),
    ("off", "anthropic", None): ("", ""),
    ("brave", "anthropic", None): ("brave", "no key for brave. Set BRAVE_API_KEY"),
    ("tavily", "ollama", None): ("tavily", ""),
    ("searxng", "ollama", None): ("searxng", "set web.search_url"),
}


@pytest.mark.parametrize(("given", "found"), CHOICES.items(), ids=map(str, CHOICES))
def test_the_engine_of_the_settings_or_the_providers_own(
    tmp_path: Path,
    given: tuple[WebSearchEngine | None, str, str | None],
    found: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    keys = tmp_path / "keys.json"
    save_key(keys, "tavily", "tvly-secret-1")
    engine, provider, base_url = given
    settings = Settings(web=WebSettings(search=engine))
    choice = SearchChoice(settings, ModelChoice(provider, "m", base_url, None), keys, Limits())
    name, problem = found
    assert choice.name == name
    assert problem in choice.problem
    assert bool(problem) == bool(choice.problem)
