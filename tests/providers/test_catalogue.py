"""Facts about models that are found out from their names."""

import pytest

from rookery.providers.catalogue import find_model, parameters_in_name


@pytest.mark.parametrize(
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
