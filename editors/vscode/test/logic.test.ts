/** The pure parts: pieces of diffs, questions, mentions, rows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { promptBlocks } from "../src/context.ts";
import { Conversation, unfenced } from "../src/conversation.ts";
import { changed, type Piece } from "../src/proposals.ts";
import { Questions } from "../src/questions.ts";
import { TestEditor } from "./test-editor.ts";

const piece = (oldText: string | null, newText: string, line = 1): Piece => ({ path: "/w/a", oldText, newText, line });

const CHANGES: [string, string | null, Piece[], string | undefined][] = [
  ["a new file", null, [piece(null, "one\n")], "one\n"],
  ["a line in the middle", "a\nb\nc\n", [piece("a\nb\nc\n", "a\nB\nc\n")], "a\nB\nc\n"],
  ["two pieces, the second moved by the first", "a\nb\nc\nd\n", [piece("a\n", "a\nx\n"), piece("d\n", "D\n", 5)], "a\nx\nb\nc\nD\n"],
  ["no newline at the end", "a\nb", [piece("a\nb\n", "a\nB\n")], "a\nB"],
  ["Windows line ends", "a\r\nb\r\n", [piece("a\nb\n", "a\nB\n")], "a\r\nB\r\n"],
  ["text that does not fit", "x\n", [piece("a\n", "b\n")], undefined],
  ["an old text for a missing file", null, [piece("a\n", "b\n")], undefined],
];

for (const [name, before, pieces, after] of CHANGES) {
  test(`pieces make the whole file: ${name}`, () => assert.equal(changed(before, pieces), after));
}

const asks = { toolCall: { title: "Write a" }, options: [
  { optionId: "once", name: "Allow once", kind: "allow_once" },
  { optionId: "always", name: "Always allow", kind: "allow_always" },
  { optionId: "reject", name: "Reject", kind: "reject_once" },
] };

test("a question takes one answer, and only one that it offered", async () => {
  const questions = new Questions(() => null, () => {});
  const answered = questions.askPermission(asks);
  const [{ id } = { id: "" }] = questions.open();
  assert.equal(questions.choose(id, "everything"), false);
  assert.equal(questions.choose("q99", "once"), false);
  assert.equal(questions.say(id, "yes"), false);
  assert.equal(questions.chooseKind(id, "allow_once"), true);
  assert.equal(questions.choose(id, "always"), false);
  assert.deepEqual(await answered, { outcome: { outcome: "selected", optionId: "once" } });
});

test("closed questions approve nothing", async () => {
  const questions = new Questions(() => null, () => {});
  const both = [questions.askPermission(asks), questions.askForm({ message: "Which port?" })];
  questions.close();
  assert.deepEqual(await Promise.all(both), [{ outcome: { outcome: "cancelled" } }, { action: "cancel" }]);
  assert.deepEqual(questions.open(), []);
});

test("mentions become content, and words that only look like one stay words", () => {
  const editor = new TestEditor("/w");
  editor.files = [{ path: "/w/a.py", text: "x", dirty: false }, { path: "/w/b.py", text: "unsaved", dirty: true }];
  editor.selected = { path: "/w/a.py", text: "x = 1", lines: [3, 3] };
  editor.found = [
    { path: "/w/a.py", line: 9, severity: "warning", message: "unused" },
    { path: "/w/a.py", line: 2, severity: "error", message: "no name 'y'", source: "mypy" },
    { path: "/w/a.py", line: 1, severity: "hint", message: "left out" },
  ];
  assert.deepEqual(promptBlocks("Mail me@open.org, see @open/x", [], editor).map((each) => each.type), ["text"]);
  editor.ran = { command: "make", text: "\x1b]633;C\x07\x1b[31mfailed\x1b[0m\n" };
  const blocks = promptBlocks("Fix @problems in @selection, see @open @terminal", [], editor);
  assert.deepEqual(blocks.map((each) => each.text ?? each.resource?.text ?? each.uri), [
    "Fix ",
    "a.py:2: error: no name 'y' [mypy]\na.py:9: warning: unused",
    " in ",
    "Lines 3 to 3 of a.py:\nx = 1",
    ", see ",
    "file:///w/a.py",
    "unsaved",
    " ",
    "$ make\nfailed\n",
  ]);
});

test("updates fold into rows: chunks join, a call keeps what an update does not name", () => {
  const told = new Conversation();
  const chunk = (text: string, messageId: string) =>
    told.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text }, messageId });
  for (const [text, id] of [["Hel", "1"], ["lo", "1"], ["Next", "2"]] as const) chunk(text, id);
  told.update({ sessionUpdate: "tool_call", toolCallId: "c", title: "ls", kind: "execute", status: "pending" });
  const content = [{ type: "content", content: { type: "text", text: "```\na\nb\n```" } }];
  told.update({ sessionUpdate: "tool_call_update", toolCallId: "c", status: "completed", content });
  const tool = { kind: "execute", status: "completed", pieces: [], output: "a\nb" };
  assert.deepEqual([...told.rows.values()].map((row) => row.tool ?? row.text), ["Hello", "Next", tool]);
  assert.equal(told.update({ sessionUpdate: "from_the_future" }), undefined);
});

test("only a whole fence is taken off", () => {
  assert.equal(unfenced("````sh\n```\n````"), "```");
  assert.equal(unfenced("text ```a```"), "text ```a```");
});
