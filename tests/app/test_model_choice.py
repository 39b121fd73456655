"""Which provider, address and key a run has, by flags, settings and the environment."""

from pathlib import Path

import pytest

from rookery.app.model_choice import NoKey, choose_model
from rookery.cli.reports import Exit, exit_code_of
from rookery.core.settings import Settings
from rookery.errors import SettingsError

KEY = "sk-0123456789abcdef"


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
def test_roo_is_reached_where_its_variable_says(
    tmp_path: Path, variable: str, flag: str | None, address: str | None
):
    wanted = Settings(provider="roo", model="m", base_url=flag)
    environ = {"ROO_API_KEY": KEY, "ROO_CODE_PROVIDER_URL": variable}
    assert choose_model(wanted, environ, tmp_path / "keys", None).base_url == address


def test_another_providers_address_is_none_of_its_business(tmp_path: Path):
    environ = {"OPENAI_API_KEY": KEY, "ROO_CODE_PROVIDER_URL": "https://roo.example"}
    wanted = Settings(provider="openai", model="m")
    assert choose_model(wanted, environ, tmp_path / "keys", None).base_url is None


def test_without_a_provider_the_first_key_decides(tmp_path: Path):
    environ = {"GOOGLE_API_KEY": KEY}
    choice = choose_model(Settings(), environ, tmp_path / "keys", None)
    assert (choice.provider, choice.model) == ("gemini", "gemini-2.5-pro")


def test_a_missing_key_has_a_code_of_its_own(tmp_path: Path):
    assert exit_code_of(NoKey("x")) == Exit.AUTH
    assert exit_code_of(SettingsError("x")) == Exit.USAGE
