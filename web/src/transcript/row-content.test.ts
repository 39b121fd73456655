import { describe, expect, it } from "vitest";
import type { Row } from "../protocol";
import { diffLines } from "./diff-lines";
import {
  delayOf,
  rowKindOf,
  followupOf,
  isEdit,
  payloadOf,
  requestOf,
  restOf,
  statsOf,
  titleOf,
  todosOf,
} from "./row-content";

const sayRow = (say: string, text = ""): Row => ({ ts: 1, type: "say", say, text });
const askRow = (ask: string, text = ""): Row => ({ ts: 1, type: "ask", ask, text });

describe("the kind of a row", () => {
  const cases: [string, Row, string][] = [
    ["text of the model", sayRow("text"), "answer"],
    ["a thought", sayRow("reasoning"), "thought"],
    ["text of the user", sayRow("user_feedback"), "user"],
    ["a tool", askRow("tool"), "call"],
    ["a command", askRow("command"), "call"],
    ["an MCP server", askRow("use_mcp_server"), "call"],
    ["command output", sayRow("command_output"), "output"],
    ["a request", sayRow("api_req_started", '{"cost":1}'), "request"],
    ["a failed request", sayRow("api_req_started", '{"streamingFailedMessage":"gone"}'), "trouble"],
    ["an interrupted request", sayRow("api_req_started", '{"cancelReason":"user_cancelled"}'), "request"],
    ["a question", askRow("followup"), "question"],
    ["a result", sayRow("completion_result"), "result"],
    ["the question after a result", askRow("completion_result"), "hidden"],
    ["a kind of a later version", sayRow("sung"), "note"],
    ["a question of a later version", askRow("sung"), "hidden"],
  ];
  it.each(cases)("%s", (_, row, kind) => expect(rowKindOf(row)).toBe(kind));

  it("is the user's for the prompt of a task", () => expect(rowKindOf(sayRow("text"), true)).toBe("user"));
});

describe("the payload of a tool call", () => {
  const row = askRow("tool", '{"tool":"appliedDiff","path":"a.py","diffStats":{"added":3,"removed":1}}');

  it("has the changed lines", () => {
    const payload = payloadOf(row);
    expect([isEdit(payload), statsOf(payload), titleOf(row, payload)]).toEqual([
      true,
      { added: 3, removed: 1 },
      "Edit a.py",
    ]);
    expect(titleOf({ ...row, title: "Edit a.py" }, payload)).toBe("Edit a.py");
  });

  it.each(["", "no json", '{"tool":', "[1]", "null", '"text"', '{"diffStats":{"added":"3"},"todos":[1,null,{}]}'])(
    "can be read if it is malformed: %s",
    (text) => {
      const payload = payloadOf(askRow("tool", text));
      expect(statsOf(payload)).toBeNull();
      expect(todosOf(payload)).toEqual([]);
      expect(titleOf(askRow("tool", text), payload)).toBe("Tool call");
    },
  );

  it("of a command is empty, even if the command is JSON", () => {
    expect(payloadOf(askRow("command", '{"tool":"readFile"}'))).toEqual({});
  });
});

describe("a request", () => {
  it("has tokens and cost once it has ended", () => {
    const info = requestOf('{"model":"m","tokensIn":10,"tokensOut":2,"cacheReads":5,"cost":0.5}');
    expect(info).toMatchObject({ tokensIn: 10, tokensOut: 2, cached: 5, cost: 0.5, ended: true, failure: "" });
    expect(requestOf('{"model":"m"}').ended).toBe(false);
    expect(requestOf('{"cost":null,"tokensIn":1}')).toMatchObject({ ended: true, cost: null });
  });

  it("always has a message if it failed", () => {
    expect(requestOf('{"cancelReason":"streaming_failed"}').failure).toBe("The request failed.");
    expect(requestOf('{"streamingFailedMessage":"Gone."}').failure).toBe("Gone.");
  });
});

describe("a question", () => {
  it("has suggestions, some with a mode", () => {
    expect(followupOf('{"question":"Which?","suggest":["one",{"answer":"two","mode":"code"},{"mode":"x"},7,null]}')).toEqual({
      question: "Which?",
      suggestions: [
        { answer: "one", mode: "" },
        { answer: "two", mode: "code" },
      ],
    });
  });
  it("in plain text has no suggestions", () => {
    expect(followupOf("Which?")).toEqual({ question: "Which?", suggestions: [] });
  });
});

describe("other texts", () => {
  it("a retry delay is parsed", () => {
    expect(delayOf("Busy.\n<retry_timer>12</retry_timer>")).toEqual({ reason: "Busy.", seconds: "12" });
    expect(delayOf("Busy.")).toEqual({ reason: "Busy.", seconds: "" });
  });
  it("the rest is what is not rendered yet", () => {
    expect(restOf({ text: "One.\n\nTwo", html: ["<p>One.</p>"], html_upto: 6 })).toBe("Two");
    expect(restOf({ text: "One." })).toBe("One.");
    expect(restOf({ text: "One.", html: [] })).toBe("One.");
    expect(restOf({ text: null })).toBe("");
  });
});

describe("a diff", () => {
  it("numbers removed lines by the old file and others by the new one", () => {
    expect(diffLines("@@ -3,2 +5,3 @@ def f():\n same\n-old\n+new\n+newer\n").map((line) => [line.kind, line.number, line.words])).toEqual([
      ["head", null, "def f():"],
      ["same", 5, "same"],
      ["removed", 4, "old"],
      ["added", 6, "new"],
      ["added", 7, "newer"],
    ]);
  });
  it("shows every line, also those that are not part of a diff", () => {
    const diff = "diff --git a b\nrename from a\n\\ No newline at end of file\n+x";
    expect(diffLines(diff).map((line) => line.words)).toEqual([
      "diff --git a b",
      "rename from a",
      "\\ No newline at end of file",
      "x",
    ]);
    expect(diffLines("")).toEqual([]);
  });
});
