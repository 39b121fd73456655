"""Model files in the caches of Ollama, LM Studio, llama.cpp and Hugging Face.

Read-only. Links to folders are not followed, and the number of visited files is limited.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from rookery.core.limits import KIB, MIB
from rookery.errors import SettingsError
from rookery.first_use import prepared
from rookery.platform.disk import reason, whole_file
from rookery.providers.catalogue import parameters_in_name
from rookery.providers.gguf import QUICK_BYTES, GgufHeader, NotGguf, read_header

MOST_ENTRIES = 20_000
"""Files and folders that are looked at in one cache."""
MOST_FILES = 500
DEEPEST = 8
MANIFEST_BYTES = MIB
SUFFIX = ".gguf"
LEAST_CONTEXT, MOST_CONTEXT = 8_192, 32_768
"""Bounds of the context, where the model allows it; the memory decides between them."""
FREE_MEMORY = 1024 * MIB
"""Memory to keep free for other programs."""
NAMED = 5
"""Found files that an error message names."""

_GIB = 1024 * MIB
_PART = re.compile(r"-(\d{5})-of-(\d{5})$")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_WEIGHTS = "application/vnd.ollama.image.model"
_USUAL_REGISTRY = "registry.ollama.ai"
_USUAL_OWNER = "library"
_LATEST = ":latest"


class ModelFile(Struct, frozen=True, kw_only=True):
    """A model file in a cache. `-m` takes its name."""

    name: str
    path: Path
    source: str
    """The program whose cache it is in."""
    size: int
    window: int
    parameters: float = 0.0
    """In billions; 0 if unknown."""


class _Layer(msgspec.Struct, rename={"media_type": "mediaType"}):
    digest: str
    media_type: str


class _Manifest(msgspec.Struct):
    layers: list[_Layer]


def local_files(environ: Mapping[str, str]) -> list[ModelFile]:
    """The model files in the usual caches, one per name."""
    found: dict[str, ModelFile] = {}
    for file in islice(_candidates(environ), MOST_FILES):
        found.setdefault(file.name, file)
    return list(found.values())


def find_file(given: str, environ: Mapping[str, str]) -> Path:
    """The model file with this path, or with this name in a cache. Raises `SettingsError`."""
    path = Path(given).expanduser()
    try:
        if path.is_file():
            return Path(os.path.abspath(path))
    except (OSError, ValueError):  # a name that no file can have
        pass
    known = local_files(environ)
    wanted = _spelled_alike(given)
    for file in known:
        if _spelled_alike(file.name) == wanted:
            return file.path
    if os.path.isdir(given):
        raise SettingsError(f"{given} is a folder. Give the path of a GGUF file with -m.")
    raise SettingsError(f"No such model file: {given}. {found_in_words(known)}")


def size_in_words(parameters: float, size: int) -> str:
    """The size of a model, such as `1.5B, 1.0 GiB`; zeros are left out."""
    count = round(parameters, 2)
    words = [f"{count:g}B"] if count else []
    if size:
        words.append(f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{-(-size // MIB)} MiB")
    return ", ".join(words)


def found_in_words(files: Iterable[ModelFile]) -> str:
    """The names that -m accepts, as a sentence."""
    names = [f"{file.name} ({size_in_words(file.parameters, file.size)})" for file in files]
    if not names:
        return (
            "No model file was found in the caches of Ollama, LM Studio, llama.cpp and Hugging "
            "Face. Give the path of a GGUF file with -m."
        )
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"Found on this machine: {', '.join(names[:NAMED])}{more}. Or give a path with -m."


def header_of(path: Path) -> GgufHeader:
    """Raises `SettingsError` if it is not a chat model."""
    try:
        header = read_header(path)
    except NotGguf as error:
        raise SettingsError(f"{path} cannot be used: {error}.") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {reason(error)}.") from error
    if not header.architecture:
        raise SettingsError(f"{path} cannot be used: its header is damaged.")
    if not header.is_chat_model:
        what = header.kind if header.kind not in ("", "model") else header.architecture
        raise SettingsError(f"{path} cannot be used: it is not a chat model ({what}).")
    return header


def context_for(header: GgufHeader, size: int, memory: int) -> int:
    """Tokens of context for a file of this size."""
    trained = header.context or LEAST_CONTEXT
    room = max(memory - size - FREE_MEMORY, 0)
    fitting = room // header.token_bytes if header.token_bytes else LEAST_CONTEXT
    return min(trained, MOST_CONTEXT, max(fitting, LEAST_CONTEXT))


def available_memory() -> int:
    """Bytes that can be used without swapping; half of all where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * KIB
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _spelled_alike(name: str) -> str:
    return name.lower().removesuffix(SUFFIX).removesuffix(_LATEST)


def _candidates(environ: Mapping[str, str]) -> Iterator[ModelFile]:
    home = Path(environ.get("HOME") or os.devnull)
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    ollama = environ.get("OLLAMA_MODELS")
    for folder in (ollama or home / ".ollama/models", "/usr/share/ollama/.ollama/models"):
        yield from _of_ollama(Path(folder))
    hugging_face = environ.get("HF_HOME") or cache / "huggingface"
    for source, folder in (
        ("LM Studio", home / ".lmstudio/models"),
        ("LM Studio", cache / "lm-studio/models"),
        ("llama.cpp", environ.get("LLAMA_CACHE") or cache / "llama.cpp"),
        ("llama.cpp", home / "Library/Caches/llama.cpp"),
        ("Hugging Face", environ.get("HF_HUB_CACHE") or Path(hugging_face) / "hub"),
    ):
        yield from _in_folder(Path(folder), source)


def _in_folder(folder: Path, source: str) -> Iterator[ModelFile]:
    for path in _files(folder):
        name, suffix = path.stem, path.suffix.lower()
        part = _PART.search(name)
        if suffix == SUFFIX and (part is None or int(part[1]) == 1):
            yield from _described(name, path, source, parts=int(part[2]) if part else 1)


def _of_ollama(folder: Path) -> Iterator[ModelFile]:
    """A manifest names the blob with the weights; its own path is the model's name."""
    manifests = folder / "manifests"
    for file in _files(manifests):
        words = file.relative_to(manifests).parts
        if len(words) < 3:
            continue
        try:
            manifest = msgspec.json.decode(
                whole_file(file, largest=MANIFEST_BYTES), type=prepared(_Manifest)
            )
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
        weights = [layer.digest for layer in manifest.layers if layer.media_type == _WEIGHTS]
        digest = _DIGEST.fullmatch(weights[0]) if weights else None
        if digest:
            blob = folder / "blobs" / f"sha256-{digest[1]}"
            yield from _described(_ollama_name(words), blob, "Ollama")


def _ollama_name(words: tuple[str, ...]) -> str:
    *owner, name, tag = words
    if owner[:1] == [_USUAL_REGISTRY]:
        owner = owner[1:]
    if owner == [_USUAL_OWNER]:
        owner = []
    return f"{'/'.join([*owner, name])}:{tag}"


def _described(name: str, path: Path, source: str, parts: int = 1) -> Iterator[ModelFile]:
    """The file, if it is a chat model."""
    try:
        header = read_header(path, QUICK_BYTES)
        size = path.stat().st_size * max(parts, 1)
    except (NotGguf, OSError):
        return
    if header.architecture and header.is_chat_model:
        parameters = header.parameters or parameters_in_name(name)
        yield ModelFile(
            name=name,
            path=path,
            source=source,
            size=size,
            window=context_for(header, size, available_memory()),
            parameters=parameters,
        )


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder by name, up to the limits; links to files count as files."""
    left = MOST_ENTRIES
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        try:
            with os.scandir(place) as opened:
                entries = sorted(islice(opened, left), key=lambda entry: entry.name)
        except OSError:
            continue  # there is no such cache, or it is not ours
        left -= len(entries)
        yield from (Path(entry.path) for entry in entries if _is_file(entry))
        if depth < DEEPEST:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            waiting += [(Path(entry.path), depth + 1) for entry in reversed(folders)]


def _is_file(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link in a circle
        return False
