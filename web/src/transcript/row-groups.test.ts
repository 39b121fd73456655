import { signal } from "@preact/signals";
import { expect, test } from "vitest";
import type { Row } from "../protocol";
import { groupsOf } from "./row-groups";

const tool = (name: string, more: object = {}) => ({
  type: "ask",
  ask: "tool",
  text: JSON.stringify({ tool: name }),
  answered: true,
  ...more,
});
const read = tool("readFile");
const search = tool("searchFiles");
const command = { type: "ask", ask: "command", text: "ls", answered: true };
const output = { type: "say", say: "command_output", text: "a" };
const request = { type: "say", say: "api_req_started", text: '{"cost": 1}' };
const answer = { type: "say", say: "text", text: "So." };

function shown(...rows: object[]) {
  return rows.map((row, at) => ({ ts: at + 1, row: signal({ ts: at + 1, ...row } as unknown as Row) }));
}

test.each([
  ["two reads and what is between", [answer, read, request, read, request, answer], [2, 3, 4], "Explored 2 files"],
  ["commands with output", [command, output, request, command, output, answer], [1, 2, 3, 4, 5], "Ran 2 commands"],
  ["all kinds", [read, search, command, output, answer], [1, 2, 3, 4], "Explored 1 file, searched once, ran 1 command"],
  ["one call", [read, request, answer], [], ""],
  ["a run that nothing follows yet", [read, read, request], [], ""],
  ["an open call", [read, tool("readFile", { answered: false }), answer], [], ""],
  ["a failed call", [read, tool("readFile", { outcome: "failed" }), read, answer], [], ""],
  ["an edit", [read, tool("editedExistingFile"), read, answer], [], ""],
])("%s", (_, rows, members, words) => {
  const groups = groupsOf(shown(...rows));
  expect([...groups.keys()]).toEqual(members);
  expect([...new Set([...groups.values()].map((group) => group.words))].join()).toBe(words);
});
