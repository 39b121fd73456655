"""Facts about models, by their names or found out from them."""

import pytest
from msgspec.structs import replace

from rookery.core.facts import Usage
from rookery.engine.ports.model import ModelInfo
from rookery.errors import SettingsError
from rookery.providers.catalogue import cost, find_model, known_models, parameters_in_name
from support.each_row import each_row


@each_row(
    ("name", "billions"),
    [
        ("qwen2.5-coder:1.5b", 1.5),
        ("qwen2.5-coder:1.5b-instruct-q4_K_M", 1.5),
        ("Llama-3.2-3B-Instruct", 3),
        ("meta-llama/Meta-Llama-3-8B", 8),
        ("SmolLM2-135M-Instruct", 0.135),
        ("qwen3-coder:30b-a3b", 30),
        ("mixtral:8x7b", 56),
        ("gemma3n:e4b", 4),
        ("gpt-oss-120b", 120),
        ("Qwen2.5-7B-Instruct-1M", 7),
        ("some-model-1m", 0),
        ("model-4bit", 0),
        ("phi-4", 0),
        ("gpt-4o-mini", 0),
        ("claude-opus-5-5", 0),
        ("", 0),
    ],
)
def test_parameters_are_read_from_the_name(name: str, billions: float):
    assert parameters_in_name(name) == pytest.approx(billions)
    assert find_model("ollama", name, {}).parameters == pytest.approx(billions)


def test_a_description_in_the_settings_says_more_than_the_name():
    assert find_model("vllm", "m-7b", {"parameters": 3.5}).parameters == 3.5


def test_a_known_model_has_its_window_abilities_and_prices():
    assert find_model("anthropic", "claude-sonnet-5-5", {}) == ModelInfo(
        id="claude-sonnet-5-5",
        provider="anthropic",
        window=1_000_000,
        max_output=128_000,
        images=True,
        thinking=True,
        caching=True,
        calls="native",
        input_price=2.0,
        output_price=10.0,
        cache_read_price=0.2,
        cache_write_price=2.5,
    )


def test_a_dated_or_tagged_name_means_the_same_model_and_another_version_does_not():
    dated = find_model("anthropic", "claude-haiku-4-5-20251001", {})
    assert dated == replace(find_model("anthropic", "claude-haiku-4-5", {}), id=dated.id)
    assert find_model("openai", "gpt-5-2025-08-07", {}).window == 400_000
    assert find_model("ollama", "qwen3-coder:30b", {}).window == 262_144
    assert find_model("anthropic", "claude-opus-5-9", {}).input_price is None


def test_an_unknown_model_gets_cautious_values():
    unknown = find_model("openrouter", "somebody/something", {})
    assert (unknown.window, unknown.images, unknown.input_price) == (128_000, False, None)


def test_user_settings_for_a_model_take_precedence():
    said = {"window": 9, "input_price": 0.5, "images": False}
    info = find_model("anthropic", "claude-sonnet-5-5", said)
    assert (info.window, info.input_price, info.images) == (9, 0.5, False)
    assert info.output_price == 10.0
    with pytest.raises(SettingsError, match="unknown fields: windw"):
        find_model("anthropic", "claude-sonnet-5-5", {"windw": 9})


@each_row("provider", ["anthropic", "openai", "openrouter", "vllm", "gemini"])
def test_every_listed_model_is_well_formed(provider: str):
    for name in known_models(provider):
        info = find_model(provider, name, {})
        assert 0 < info.max_output <= info.window
        assert (info.input_price is None) == (info.output_price is None)


SONNET = find_model("anthropic", "claude-sonnet-5-5", {})
HAIKU = find_model("anthropic", "claude-haiku-5-5", {})


@each_row(
    ("model", "usage", "dollars"),
    [
        (SONNET, Usage(), 0.0),
        (SONNET, Usage(tokens_in=1_000_000), 2.0),
        (SONNET, Usage(tokens_out=1_000_000), 10.0),
        (SONNET, Usage(tokens_in=1_000_000, cache_reads=1_000_000), 0.2),
        (SONNET, Usage(tokens_in=1_000_000, cache_writes=1_000_000), 2.5),
        (SONNET, Usage(tokens_in=10, cache_reads=10**9), 0.000002),
        (HAIKU, Usage(tokens_in=100_000, tokens_out=1000), 0.0105),
        (HAIKU, Usage(tokens_in=200_000, tokens_out=1000), 0.1025),
        (replace(SONNET, cache_read_price=None), Usage(tokens_in=100, cache_reads=100), 0.0002),
        (replace(SONNET, input_price=None), Usage(tokens_in=100), None),
    ],
)
def test_the_cost_follows_from_the_prices(model, usage: Usage, dollars: float | None):
    assert cost(model, usage) == (None if dollars is None else pytest.approx(dollars))
