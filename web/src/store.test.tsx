import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { SessionRow } from "./protocol";
import { followList, followTask, inbox, list, listLoaded, refreshOnFocus, sessionOf, sessions } from "./store";
import { FakeManager } from "./test-support/fake-manager";

let manager: FakeManager;

beforeEach(async () => {
  manager = new FakeManager();
  await manager.connect();
});

afterEach(() => vi.unstubAllGlobals());

const row = (session_id: string) => ({ session_id, name: session_id }) as SessionRow;
const say = (ts: number) => ({ ts, type: "say", say: "text", text: `${ts}` });

async function following(method: string, follow: () => { stop(): void }) {
  manager.answers[method] = { follow_id: 9 };
  const followed = follow();
  await manager.waitForCall(method);
  return followed;
}

describe("the list", () => {
  it("is followed again after a reconnect", async () => {
    const followed = await following("follow_list", followList);
    expect(listLoaded.value).toBe(false);
    manager.notify("list", { follow_id: 9, rows: [row("a"), row("b")], order: ["b", "a"], inbox: [{ session_id: "a" }] });
    expect([sessions.value.map((each) => each.name), inbox.value.length]).toEqual([["b", "a"], 1]);
    manager.notify("list", { follow_id: 9, removed: ["b"] });
    expect(sessions.value.map((each) => each.name)).toEqual(["a"]);
    await manager.reconnect();
    expect(sessionOf("a")).toBeDefined();
    await manager.waitForCall("follow_list", 2);
    manager.notify("list", { follow_id: 9, rows: [row("c")], order: ["c"], inbox: [] });
    expect([...list.value.rows.keys()]).toEqual(["c"]);
    followed.stop();
  });

  it("is refreshed when the page gets the focus", async () => {
    manager.answers.refresh = null;
    refreshOnFocus();
    dispatchEvent(new Event("focus"));
    await manager.waitForCall("refresh");
  });
});

describe("a task", () => {
  it("is updated by changes, and reports why it ended", async () => {
    manager.answers.follow_session = { follow_id: 9 };
    const task = followTask("s");
    await manager.waitForCall("follow_session");
    manager.notify("view", { follow_id: 9, seq: 1, earlier: 3, change: { added: [say(5)] } });
    expect([task.view.rows.value.length, task.view.earlier.value]).toEqual([1, 3]);
    manager.notify("ended", { follow_id: 9, error: { code: -1, message: "It was removed." } });
    expect(task.view.ended.value).toBe("It was removed.");
  });

  it("resolves widen() when the rows have arrived, not when the call returns", async () => {
    manager.answers.follow_session = { follow_id: 9 };
    const task = followTask("s", "child");
    await manager.waitForCall("follow_session");
    expect(manager.callsOf("follow_session")).toMatchObject([{ session_id: "s", task_id: "child" }]);
    manager.notify("view", { follow_id: 9, seq: 1, earlier: 3, change: { added: [say(5)] } });
    let done = false;
    const widened = task.widen().then(() => (done = true));
    await manager.waitForCall("widen");
    await Promise.resolve();
    expect(done).toBe(false);
    manager.notify("view", { follow_id: 9, seq: 1, earlier: 0, change: { added: [say(1), say(2), say(3)] } });
    await widened;
    expect(task.view.rows.value.map((each) => each.ts)).toEqual([1, 2, 3, 5]);
    task.stop();
    await manager.waitForCall("unfollow");
  });
});
