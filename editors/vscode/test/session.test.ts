/** The chat drives the real `rookery acp`. `tests/editors/test_vscode.py` starts it and plays the model. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Chat, type Status, type ToView } from "../src/chat.ts";
import type { Row } from "../src/conversation.ts";
import type { Question } from "../src/questions.ts";
import { TestEditor } from "./test-editor.ts";

const [command = "", ...args] = JSON.parse(process.env.ROOKERY_COMMAND ?? "[]") as string[];
const folder = process.env.ROOKERY_WORKSPACE ?? "";

/** A view without a window: keeps the rows, and waits for what a test expects. */
class TestView {
  readonly rows = new Map<string, Row>();
  status = { questions: [] as Question[] } as Status;
  private waiting: (() => void)[] = [];

  take = (message: ToView): void => {
    if (message.kind === "rows") {
      if (message.reset) this.rows.clear();
      for (const row of message.rows) this.rows.set(row.id, row);
    } else if (message.kind === "status") this.status = message.status;
    for (const each of this.waiting.splice(0)) each();
  };

  async until<T>(found: () => T | undefined | false): Promise<T> {
    for (;;) {
      const result = found();
      if (result) return result;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  question(about: string): Promise<Question> {
    return this.until(() => this.status.questions.find((each) => (each.title + each.command).includes(about)));
  }

  texts(kind: string): string[] {
    return [...this.rows.values()].filter((row) => row.kind === kind).map((row) => row.text);
  }
}

test("a chat with the real agent", { skip: !command && "tests/editors/test_vscode.py runs it" }, async (t) => {
  const editor = new TestEditor(folder);
  const view = new TestView();
  const chat = new Chat(() => ({ command, args }), editor, view.take);
  const path = join(folder, "a.txt");
  t.after(() => chat.end());

  await t.test("it starts, and offers mode, model and level", async () => {
    await chat.take({ kind: "ready" });
    assert.deepEqual(view.status.options.map((each) => each.id), ["mode", "model", "permissions"]);
    await chat.take({ kind: "option", id: "mode", value: "debug" });
    assert.equal(view.status.options[0]?.current, "debug");
  });

  await t.test("a change is shown as a whole file, and accepted; a command is rejected; output is shown", async () => {
    editor.files = [{ path, text: "one\nunsaved\n", dirty: true }];
    editor.found = [{ path, line: 2, severity: "error", message: "a strange word" }];
    editor.selected = { path, text: "one", lines: [1, 1] };
    assert.equal(chat.addSelection(), true);
    const turn = chat.prompt("Fix @problems");
    assert.equal(view.status.busy, true);
    const change = await view.question("a.txt");
    assert.deepEqual(change.proposals, [{ path, before: "one\nunsaved\n", after: "one\ntwo\n" }]);
    chat.questions.chooseKind(change.id, "allow_once");
    const refused = await view.question("touch forbidden");
    chat.questions.chooseKind(refused.id, "reject_once");
    const allowed = await view.question("uname");
    await chat.take({ kind: "choose", question: allowed.id, option: "once" });
    const asked = await view.question("Which port?");
    assert.deepEqual(asked.options.map((each) => each.label), ["8080"]);
    await chat.take({ kind: "say", question: asked.id, text: "9090" });
    await turn;
    assert.equal(readFileSync(path, "utf8"), "one\ntwo\n");
    assert.equal(existsSync(join(folder, "forbidden")), false);
    const tools = [...view.rows.values()].flatMap((row) => row.tool ?? []);
    assert.deepEqual(tools.map((each) => each.status), ["completed", "completed", "failed", "completed"]);
    assert.match(tools[3]!.output, /Linux/);
    assert.equal(view.status.busy, false);
    assert.deepEqual(view.status.attached, []);
    assert.match(view.texts("agent").join(), /Done\./);
  });

  await t.test("stop ends the turn and closes its question", async () => {
    const turn = chat.prompt("again");
    await view.question("touch late");
    await chat.take({ kind: "stop" });
    await turn;
    assert.deepEqual(view.status.questions, []);
    assert.equal(existsSync(join(folder, "late")), false);
    assert.equal(view.texts("notice").at(-1), "Stopped.");
  });

  await t.test("a session is listed, left and loaded again", async () => {
    const [known] = await chat.sessions();
    const turn = chat.prompt("once more");
    await view.question("touch left");
    await chat.newSession();
    await turn;
    assert.equal(view.rows.size, 0);
    assert.equal(view.status.busy, false);
    assert.equal(existsSync(join(folder, "left")), false);
    await chat.loadSession(known!.id);
    assert.match(view.texts("user")[0]!, /^Fix/);
    assert.match(view.texts("agent").join(), /Done\./);
  });

  await t.test("after the process ended, the next message resumes the session", async () => {
    (chat as any).agent.process.kill("SIGKILL");
    await view.until(() => view.texts("error").at(-1)?.includes("starts rookery again"));
    await chat.prompt("and now?");
    assert.equal(view.texts("agent").at(-1), "All is well.");
  });
});

test("a program that does not start is named, once", async () => {
  const view = new TestView();
  const chat = new Chat(() => ({ command: "/no/such/rookery", args: [] }), new TestEditor(process.cwd()), view.take);
  await chat.take({ kind: "ready" });
  await view.until(() => view.texts("error").length > 0);
  assert.equal(view.texts("error").length, 1);
  assert.match(view.texts("error")[0]!, /^\/no\/such\/rookery did not start/);
});
