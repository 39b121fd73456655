"""Serve a script written in YAML: `python tests/llm_server script.yaml --port 0`.

Prints its URL, and serves until its standard input closes. A script is a list of answers:

    - - Looking.
      - call: {read_file: {path: a.py}}
    - status: 529
    - - say: [{chunks: [2000000, 20000]}]
      - finish: Done.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

# Run as a folder, Python looks for modules inside it; the package itself stands beside it.
sys.path[0] = str(Path(__file__).parents[1])

from llm_server import script as words  # noqa: E402
from llm_server.parts import Answer, Status, Writes  # noqa: E402
from llm_server.server import LlmServer  # noqa: E402


def main() -> None:
    import yaml

    asked = argparse.ArgumentParser(description="Serve a scripted model.")
    asked.add_argument("script", type=Path, help="a YAML file with the answers")
    asked.add_argument("--port", type=int, default=0, help="0 takes any free port")
    asked.add_argument(
        "--by-history",
        action="store_true",
        help="choose the answer by the conversation, not by the number of requests so far",
    )
    options = asked.parse_args()
    script = yaml.safe_load(options.script.read_text(encoding="utf-8"))
    answers = [_answer(answer) for answer in script]
    server = (
        LlmServer.by_history(answers, port=options.port)
        if options.by_history
        else LlmServer(*answers, port=options.port)
    )
    with server:
        print(server.url, flush=True)
        sys.stdin.buffer.read()


def _answer(answer: Any) -> Answer:
    parts = [_part(part) for part in (answer if isinstance(answer, list) else [answer])]
    return parts[0] if isinstance(parts[0], Status) else parts


def _part(part: Any) -> Any:
    """A text is said; anything else names a word of the script and what it is given."""
    if isinstance(part, str):
        return Writes[part] if part in Writes.__members__ else words.say(part)
    ((word, given),) = part.items()
    if word == "call":
        ((name, arguments),) = given.items()
        return words.call(name, **arguments or {})
    speak = getattr(words, word)
    match given:
        case None:
            return speak()
        case dict():
            return speak(**given)
        case list():
            return speak(*(piece for item in given for piece in _pieces(item)))
        case _:
            return speak(given)


def _pieces(item: Any) -> list[Any]:
    match item:
        case {"chunks": [text_len, count]}:
            return list(words.chunks(text_len, count))
        case dict():
            return [_part(item)]
        case _:
            return [item]


if __name__ == "__main__":
    main()
