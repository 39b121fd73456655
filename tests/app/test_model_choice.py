"""Which provider, address and key a run has, by flags, settings and the environment."""

import os
from pathlib import Path

import pytest

from rookery.app.listed_models import usable_models
from rookery.app.model_choice import (
    BY_KEY,
    ModelChoice,
    Models,
    NoKey,
    assumption,
    choice_without_flags,
    choose_model,
    facts_about,
    named_model,
    own_address,
)
from rookery.cli.reports import Exit, exit_code_of
from rookery.core.facts import FellBack
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Hiding
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.providers.catalogue import known_models
from rookery.providers.listing_shapes import ListedModel
from rookery.providers.model_cache import ModelList, keep_lists
from rookery.providers.registry import BASE_URLS, KEY_VARIABLES, PRIVATE_VARIABLES
from rookery.storage.keys import save_key
from support.each_row import each_row

KEY = "sk-0123456789abcdef"
NEW_KEY = "sk-fedcba9876543210"


@pytest.mark.parametrize(
    ("provider", "variable", "called"),
    [
        ("anthropic", "ANTHROPIC_API_KEY", "anthropic"),
        ("openai", "OPENAI_API_KEY", "openai"),
        ("openai-native", "OPENAI_API_KEY", "responses"),
        ("gemini", "GOOGLE_API_KEY", "gemini"),
        ("gemini", "GEMINI_API_KEY", "gemini"),
        ("openrouter", "OPENROUTER_API_KEY", "openrouter"),
        ("vercel-ai-gateway", "VERCEL_AI_GATEWAY_API_KEY", "vercel-ai-gateway"),
        ("roo", "ROO_API_KEY", "roo"),
        ("vertex", "VERTEX_ACCESS_TOKEN", "vertex"),
        ("azure", "AZURE_OPENAI_API_KEY", "azure"),
        ("azure", "AZURE_OPENAI_AD_TOKEN", "azure"),
        ("mistral", "MISTRAL_API_KEY", "mistral"),
        ("xai", "XAI_API_KEY", "xai"),
        ("deepseek", "DEEPSEEK_API_KEY", "deepseek"),
        ("groq", "GROQ_API_KEY", "groq"),
        ("together", "TOGETHER_API_KEY", "together"),
        ("fireworks", "FIREWORKS_API_KEY", "fireworks"),
        ("cerebras", "CEREBRAS_API_KEY", "cerebras"),
        ("moonshot", "MOONSHOT_API_KEY", "moonshot"),
        ("zai", "ZAI_API_KEY", "zai"),
        ("github", "GITHUB_TOKEN", "github"),
    ],
)
def test_each_provider_has_its_variable(tmp_path: Path, provider: str, variable: str, called: str):
    wanted = Settings(provider=provider, model="m")
    choice = choose_model(wanted, {variable: KEY}, tmp_path / "keys", None)
    assert choice.key
    assert (choice.provider, choice.key.reveal(), choice.key.source) == (called, KEY, variable)
    with pytest.raises(NoKey, match=f"No key for {called}"):
        choose_model(wanted, {"OTHER_API_KEY": KEY}, tmp_path / "keys", None)


def test_the_flag_comes_before_the_variable(tmp_path: Path):
    wanted = Settings(provider="gemini", model="m")
    given = {"GEMINI_API_KEY": "not-this-one", "GOOGLE_API_KEY": "nor-this-one"}
    choice = choose_model(wanted, given, tmp_path / "keys", KEY)
    assert choice.key
    assert (choice.key.reveal(), choice.key.source) == (KEY, "--api-key")


@pytest.mark.parametrize(
    ("variable", "flag", "address"),
    [
        ("", None, None),
        ("https://roo.example/proxy", None, "https://roo.example/proxy/v1"),
        ("https://roo.example/proxy/v1/", None, "https://roo.example/proxy/v1"),
        ("https://roo.example/proxy", "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
    ],
)
def test_the_roo_address_comes_from_its_variable(
    tmp_path: Path, variable: str, flag: str | None, address: str | None
):
    wanted = Settings(provider="roo", model="m", base_url=flag)
    environ = {"ROO_API_KEY": KEY, "ROO_CODE_PROVIDER_URL": variable}
    assert choose_model(wanted, environ, tmp_path / "keys", None).base_url == address


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("azure", "AZURE_OPENAI_ENDPOINT"), ("bedrock", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME")],
)
def test_an_address_without_a_version_stays_as_it_is(tmp_path: Path, provider: str, variable: str):
    environ = {variable: "https://mine.example/"}
    choice = choose_model(Settings(provider=provider, model="m"), environ, tmp_path / "keys", KEY)
    assert choice.base_url == "https://mine.example"


def test_vertex_needs_a_token_or_google_credentials(tmp_path: Path):
    wanted, home = Settings(provider="vertex"), {"HOME": str(tmp_path)}
    with pytest.raises(NoKey, match=r"Set VERTEX_ACCESS_TOKEN.*gcloud auth application-default"):
        choose_model(wanted, home, tmp_path / "keys", None)
    for given in ({"VERTEX_ACCESS_TOKEN": KEY}, {"GOOGLE_APPLICATION_CREDENTIALS": "key.json"}):
        choice = choose_model(wanted, home | given, tmp_path / "keys", None)
        assert (choice.provider, choice.model) == ("vertex", "gemini-3.8-flash")


def test_the_address_of_another_provider_is_ignored(tmp_path: Path):
    environ = {"OPENAI_API_KEY": KEY, "ROO_CODE_PROVIDER_URL": "https://roo.example"}
    wanted = Settings(provider="openai", model="m")
    assert choose_model(wanted, environ, tmp_path / "keys", None).base_url is None


def test_the_first_key_chooses_the_provider(tmp_path: Path):
    environ = {"GOOGLE_API_KEY": KEY}
    choice = choose_model(Settings(), environ, tmp_path / "keys", None)
    assert (choice.provider, choice.model) == ("gemini", "gemini-3.8-flash")


def test_every_default_model_is_known_and_a_github_token_alone_chooses_nothing(tmp_path: Path):
    for provider in BY_KEY:
        choice = choose_model(Settings(), {KEY_VARIABLES[provider]: KEY}, tmp_path / "keys", None)
        assert choice.provider == provider
        assert choice.model in known_models(provider)
    assert choice_without_flags(Settings(), {"GITHUB_TOKEN": KEY}, tmp_path / "keys") is None


def test_programs_of_the_user_keep_a_github_token_but_get_no_key_of_a_model():
    assert "GITHUB_TOKEN" not in PRIVATE_VARIABLES
    assert {"ANTHROPIC_API_KEY", "MISTRAL_API_KEY"} <= PRIVATE_VARIABLES


def test_a_missing_key_has_its_own_exit_code(tmp_path: Path):
    assert exit_code_of(NoKey("x")) == Exit.AUTH
    assert exit_code_of(SettingsError("x")) == Exit.USAGE


@each_row(
    ("text", "provider", "model"),
    [
        ("claude-x", "", "claude-x"),
        ("qwen3:8b", "", "qwen3:8b"),
        ("anthropic/claude-x:free", "", "anthropic/claude-x:free"),
        ("openrouter:anthropic/claude-x:free", "openrouter", "anthropic/claude-x:free"),
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("openai-native:gpt-x", "responses", "gpt-x"),
        ("openai:", "", "openai:"),
    ],
)
def test_a_fallback_may_name_its_provider(text: str, provider: str, model: str):
    assert named_model(text) == (provider, model)


def test_a_fallback_of_the_same_provider_has_its_key_and_another_one_its_own(tmp_path: Path):
    def choose(wanted: Settings) -> ModelChoice:
        return choose_model(wanted, {}, tmp_path / "keys", None)

    settings = Settings(provider="openai", model="a", fallback=("b", "anthropic:c"))
    default = choose_model(settings, {}, tmp_path / "keys", KEY)
    models = Models(settings, default, choose)
    assert models.fall_back(1) == FellBack(place=1, provider="", model="b")
    assert models.of("", "b").model.id == "b"
    assert "No key for anthropic" in models.fall_back(2).problem


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("flag", "stored", "used"), [(None, NEW_KEY, NEW_KEY), (KEY, NEW_KEY, KEY)]
)
async def test_a_key_that_was_stored_later_is_used_and_hidden_unless_a_flag_gives_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str | None, stored: str, used: str
):
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path))
    keys_file = find_places(os.environ).keys_file
    save_key(keys_file, "openai", KEY)

    def choose(wanted: Settings) -> ModelChoice:
        return choose_model(wanted, {}, keys_file, None)

    settings = Settings(provider="openai", model="a")
    hide = Hiding()
    models = Models(settings, choose_model(settings, {}, keys_file, flag), choose, hide=hide)
    before = models.of("", "")
    assert models.of("", "") is before
    save_key(keys_file, "openai", stored)
    assert (models.of("", "") is before) is (used == KEY)
    assert (hide(stored) != stored) is (used == stored)
    await models.aclose()


def test_models_of_the_last_list_can_be_chosen_and_an_unknown_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path))
    listed = ListedModel(id="our/listed", window=64_000)
    address = BASE_URLS["groq"]
    one = ModelList(provider="groq", address=address, fetched=1.0, models=(listed,))
    keep_lists(tmp_path / "cache" / "models.json", [one])

    def choose(settings: Settings) -> ModelChoice:
        return choose_model(settings, {"GROQ_API_KEY": KEY}, tmp_path / "keys", None)

    settings = Settings(provider="groq", model="our/unlisted", models={"our/own": {"window": 9}})
    default = choose(settings)
    assert ("groq", "our/listed") in usable_models(settings, default, choose)
    notes = {
        model: assumption(settings, ModelChoice("groq", model, None, None))
        for model in ("our/unlisted", "our/listed", "our/own", "openai/gpt-oss-120b")
    }
    assert [model for model, note in notes.items() if note] == ["our/unlisted"]
    assert "window of 128,000 tokens, no images, unknown price" in notes["our/unlisted"]
    assert facts_about(settings, "groq", "our/listed", None).window == 64_000
    assert facts_about(settings, "groq", "our/own", None).window == 9
    assert facts_about(settings, "groq", "our/listed", "https://other.example").window == 128_000


@each_row(
    ("provider", "variable", "given", "address"),
    [
        ("openai", "OPENAI_BASE_URL", "http://host:8000/v1/", "http://host:8000/v1"),
        ("openai", "OPENAI_BASE_URL", "http://host:8000", "http://host:8000/v1"),
        ("openai", "OPENAI_BASE_URL", "https://host/v1beta/openai", "https://host/v1beta/openai"),
        ("anthropic", "ANTHROPIC_BASE_URL", "https://host", "https://host"),
    ],
)
def test_the_address_in_a_vendors_variable_is_used(
    provider: str, variable: str, given: str, address: str
):
    assert own_address(Settings(), provider, {variable: given}) == address
