"""An MCP server with a tool `write_file` that writes nothing; what it receives goes to a file.

mcp_file_server.py HEARD
"""

import json
import sys
from typing import Any

PATHS = {"path": {"type": "string"}, "uri": {"type": "string"}}
TOOL = {
    "name": "write_file",
    "description": "Writes a file.",
    "inputSchema": {"type": "object", "properties": PATHS},
}


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "files", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            with open(sys.argv[1], "a", encoding="utf-8") as received:
                received.write(json.dumps(request["params"]["arguments"]) + "\n")
            return {"content": [{"type": "text", "text": "written"}]}
        case _:
            return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        said = {"jsonrpc": "2.0", "id": message["id"], "result": answer_to(message)}
        print(json.dumps(said), flush=True)
