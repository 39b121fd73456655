"""A language server that finds a problem wherever a line says so.

    error: no such thing     an error with this message
    warning: not so nice     a warning
    breaks other.toy: why    an error in the first line of another file

Its first argument says how it behaves:

    well          it reports every text
    unversioned   it names no versions and reports only what changed
    asked         it reports when asked
    waits         it reports once the file `go` is beside the text
    dies          it ends with the second text
    nonsense      it asks for invalid settings, and reports an invalid file
    deaf          it reads nothing after it has started
    babbles       it begins with something other than a message

If there is a second argument, each start appends a line to that file.
"""

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit


class ScriptedServer:
    def __init__(self, way: str) -> None:
        self._way = way
        self._texts = 0
        self._reported: dict[str, list[object]] = {}

    def serve(self) -> None:
        while (message := read()) is not None:
            if message.get("method") == "exit":
                return
            self._take(message)

    def _take(self, message: dict) -> None:
        match message.get("method"):
            case "initialize":
                asked = {"diagnosticProvider": {}} if self._way == "asked" else {}
                send(id=message["id"], result={"capabilities": {"textDocumentSync": 1, **asked}})
            case "textDocument/diagnostic":
                found = self._reported.get(message["params"]["textDocument"]["uri"], [])
                send(id=message["id"], result={"kind": "full", "items": found})
            case "initialized" if self._way == "deaf":
                time.sleep(600)
            case "shutdown":
                send(id=message["id"], result=None)
            case "textDocument/didOpen":
                document = message["params"]["textDocument"]
                self._look(document["uri"], document["version"], document["text"])
            case "textDocument/didChange":
                document = message["params"]["textDocument"]
                text = message["params"]["contentChanges"][-1]["text"]
                self._look(document["uri"], document["version"], text)

    def _look(self, uri: str, version: int, text: str) -> None:
        self._texts += 1
        if self._way == "dies" and self._texts > 1:
            sys.stderr.write("out of toys\n")
            os._exit(3)
        if self._way == "nonsense":
            asked = {"items": [7, {"section": 8}, {"section": "a.b"}]}
            send(id="q", method="workspace/configuration", params=asked)
            send(method="textDocument/publishDiagnostics", params={"uri": uri, "diagnostics": 9})
            send(
                method="textDocument/publishDiagnostics",
                params={"uri": "http://[", "diagnostics": []},
            )
        if self._way == "waits":
            while not path_of(uri).with_name("go").exists():
                time.sleep(0.01)
        found, elsewhere = problems_in(text)
        for name, problem in elsewhere.items():
            self._publish(f"{uri.rpartition('/')[0]}/{name}", None, [problem])
        self._publish(uri, version, found)

    def _publish(self, uri: str, version: int | None, found: list) -> None:
        unversioned = self._way == "unversioned"
        if unversioned and self._reported.get(uri) == found:
            return
        self._reported[uri] = found
        if self._way == "asked":
            return
        named = {} if unversioned or version is None else {"version": version}
        params = {"uri": uri, "diagnostics": found, **named}
        send(method="textDocument/publishDiagnostics", params=params)


def problems_in(text: str) -> tuple[list[dict], dict[str, dict]]:
    found, elsewhere = [], {}
    for number, line in enumerate(text.splitlines()):
        word, _, message = line.strip().partition(": ")
        if word in ("error", "warning"):
            found.append(problem(number, message, 1 if word == "error" else 2))
        elif word.startswith("breaks "):
            elsewhere[word.removeprefix("breaks ")] = problem(0, message, 1)
    return found, elsewhere


def problem(line: int, message: str, severity: int) -> dict:
    start = {"line": line, "character": 0}
    return {
        "range": {"start": start, "end": start},
        "message": message,
        "severity": severity,
        "code": "T1",
        "source": "toy",
    }


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def read() -> dict | None:
    size = 0
    while (line := sys.stdin.buffer.readline()) not in (b"", b"\r\n"):
        name, _, value = line.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
    return json.loads(sys.stdin.buffer.read(size)) if size else None


def send(**message: object) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    way, *starts = sys.argv[1:]
    for file in starts:
        with open(file, "a", encoding="utf-8") as log:
            log.write(f"{os.getpid()}\n")
    if way == "babbles":
        print("Toy server 1.0, ready to serve.\r\n\r\n", flush=True)
    ScriptedServer(way).serve()
