"""Model files in the caches of other programs, found by name."""

import json
import os
from pathlib import Path

import pytest

from rookery.errors import SettingsError
from rookery.providers.model_files import find_file, header_of, local_files
from support.tiny_model import Pair, a_text, facts, header, tiny_model

DIGEST = "ab" * 32


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def model_at(path: Path, more: dict[str, Pair] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header(facts(more), []))
    return path


def ollama_model(models: Path, name: str, digest: str = DIGEST) -> Path:
    """A manifest and its blob."""
    manifest = models / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}), encoding="utf-8")
    return model_at(models / "blobs" / f"sha256-{digest}")


def names(environ: dict[str, str]) -> list[tuple[str, str]]:
    return [(file.source, file.name) for file in local_files(environ)]


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ("registry.ollama.ai/library/qwen2.5-coder/1.5b", "qwen2.5-coder:1.5b"),
        ("registry.ollama.ai/ada/tuned/latest", "ada/tuned:latest"),
        ("hf.co/ada/Tuned-3B-GGUF/Q4_K_M", "hf.co/ada/Tuned-3B-GGUF:Q4_K_M"),
    ],
)
def test_models_of_ollama_have_its_names(
    tmp_path: Path, environ: dict[str, str], manifest: str, name: str
):
    blob = ollama_model(tmp_path / ".ollama/models", manifest)
    assert names(environ) == [("Ollama", name)]
    assert find_file(name, environ) == blob


@pytest.mark.parametrize(
    ("variable", "folder", "file", "source"),
    [
        ("", ".lmstudio/models", "ada/Tuned/tuned-3b.gguf", "LM Studio"),
        ("", ".cache/lm-studio/models", "ada/Tuned/tuned-3b.gguf", "LM Studio"),
        ("", ".cache/llama.cpp", "tuned-3b.gguf", "llama.cpp"),
        ("LLAMA_CACHE", "elsewhere", "tuned-3b.gguf", "llama.cpp"),
        ("HF_HOME", "elsewhere", "hub/models--a--b/snapshots/1/tuned-3b.gguf", "Hugging Face"),
        ("HF_HUB_CACHE", "elsewhere", "models--a--b/snapshots/1/tuned-3b.gguf", "Hugging Face"),
    ],
)
def test_other_models_are_named_after_their_files(
    tmp_path: Path, environ: dict[str, str], variable: str, folder: str, file: str, source: str
):
    path = model_at(tmp_path / folder / file)
    if variable:
        environ[variable] = str(tmp_path / folder)
    (found,) = local_files(environ)
    assert (found.source, found.name, found.path) == (source, "tuned-3b", path)
    assert (found.size, found.parameters) == (path.stat().st_size, 3)


def test_models_of_ollama_are_found_in_the_configured_folder(
    tmp_path: Path, environ: dict[str, str]
):
    ollama_model(tmp_path / "disk", "registry.ollama.ai/library/m/latest")
    environ["OLLAMA_MODELS"] = str(tmp_path / "disk")
    assert names(environ) == [("Ollama", "m:latest")]


@pytest.mark.parametrize("given", ["m", "M:latest", "tuned-3b", "Tuned-3B.gguf"])
def test_a_name_is_found_in_any_case_and_without_the_usual_ending(
    tmp_path: Path, environ: dict[str, str], given: str
):
    ollama_model(tmp_path / ".ollama/models", "registry.ollama.ai/library/m/latest")
    model_at(tmp_path / ".lmstudio/models/tuned-3b.gguf")
    assert find_file(given, environ).exists()


def test_links_to_files_count_and_links_to_folders_do_not(tmp_path: Path, environ: dict[str, str]):
    hub = tmp_path / ".cache/huggingface/hub/models--a--b"
    blob = model_at(hub / "blobs/123")
    link = hub / "snapshots/1/m.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    (hub / "snapshots/again").symlink_to(hub)
    (hub / "snapshots/1/circle.gguf").symlink_to(hub / "snapshots/1/circle.gguf")
    assert names(environ) == [("Hugging Face", "m")]


def test_only_chat_models_are_listed(tmp_path: Path, environ: dict[str, str]):
    folder = tmp_path / ".lmstudio/models"
    model_at(folder / "good.gguf")
    model_at(folder / "large-00001-of-00003.gguf")
    model_at(folder / "large-00002-of-00003.gguf")
    model_at(folder / "mmproj.gguf", {"general.type": a_text("mmproj")})
    model_at(folder / "embed.gguf", {"general.architecture": a_text("nomic-bert")})
    (folder / "noise.gguf").write_bytes(b"GGUF")
    (folder / "empty.gguf").write_bytes(b"")
    os.mkfifo(folder / "pipe.gguf")
    assert names(environ) == [("LM Studio", "good"), ("LM Studio", "large-00001-of-00003")]


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b'{"layers": [{}]}',
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "../../x"}]}',
        b"\xff",
    ],
)
def test_an_odd_manifest_is_passed_over(tmp_path: Path, environ: dict[str, str], manifest: bytes):
    file = tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/m/latest"
    file.parent.mkdir(parents=True)
    file.write_bytes(manifest)
    assert names(environ) == []


def test_an_unknown_name_lists_the_found_files(tmp_path: Path, environ: dict[str, str]):
    with pytest.raises(SettingsError, match=r"No such model file: nope\. No model file was found"):
        find_file("nope", environ)
    for number in range(7):
        model_at(tmp_path / f".lmstudio/models/m{number}-3b.gguf")
    with pytest.raises(SettingsError, match=r"machine: m0-3b \(3B, 1 MiB\), .* and 2 more\. Or"):
        find_file("nope.gguf", environ)
    with pytest.raises(SettingsError, match=r" is a folder\. Give the path of a GGUF file with -m"):
        find_file(str(tmp_path), environ)


@pytest.mark.parametrize("given", ["x\0y", "x" * 5000, ""])
def test_an_impossible_file_name_is_not_found(environ: dict[str, str], given: str):
    with pytest.raises(SettingsError, match="No such model file"):
        find_file(given, environ)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"hello", "cannot be used: it is not a GGUF file"),
        (header({}, []), "cannot be used: its header is damaged"),
        (header(facts({"general.type": a_text("adapter")}), []), r"not a chat model \(adapter\)"),
        (header(facts({"general.architecture": a_text("clip")}), []), r"chat model \(clip\)"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path, content: bytes, problem: str):
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=problem):
        header_of(file)


def test_a_file_may_be_given_by_its_path(tmp_path: Path, environ: dict[str, str]):
    file = tiny_model(tmp_path / "m.gguf")
    assert find_file(str(file), environ) == file
    assert header_of(file).architecture == "llama"
