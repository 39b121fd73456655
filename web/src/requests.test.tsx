import { render } from "preact";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { connection } from "./connection";
import type { Action } from "./requests";
import { useRequest, useAction } from "./requests";

/** A manager that answers when the test tells it to. */
class Socket {
  static now: Socket;
  onopen: ((event: object) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  calls: { id: number; method: string; params: { path?: string } }[] = [];

  constructor() {
    Socket.now = this;
    queueMicrotask(() => this.onopen?.({}));
  }

  send(text: string): void {
    const call = JSON.parse(text);
    if (call.method === "initialize") this.notify(call.id, { result: { protocol: 1, host: null, requests: [] } });
    else this.calls.push(call);
  }

  notify(id: number, message: object): void {
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id, ...message }) });
  }

  close(): void {}
}

const place = document.body;

beforeEach(async () => {
  vi.stubGlobal("WebSocket", Socket);
  localStorage.setItem("rookery.token", "t");
  vi.stubGlobal("crypto", { randomUUID: () => "" }); // without cryptography no proof is asked for
  connection.connect();
  await vi.waitUntil(() => connection.status.value === "open");
});

afterEach(() => {
  render(null, place);
  vi.unstubAllGlobals();
});

function Blamed({ path }: { path: string }) {
  const { answer, problem, reload } = useRequest("blame_file", { path });
  return (
    <button type="button" onClick={reload}>
      {problem || (answer ? answer.map((line) => line.text).join() : "waiting")}
    </button>
  );
}

const shown = () => place.textContent;
const callNumber = (number: number) => vi.waitUntil(() => Socket.now.calls[number]);
const lines = (text: string) => ({ result: [{ line: 1, text }] });

it("shows the answer", async () => {
  render(<Blamed path="a" />, place);
  expect(shown()).toBe("waiting");
  Socket.now.notify((await callNumber(0)).id, lines("of a"));
  await vi.waitUntil(() => shown() === "of a");
});

it("ignores the late answer to an earlier request", async () => {
  render(<Blamed path="a" />, place);
  const first = await callNumber(0);
  render(<Blamed path="b" />, place);
  const second = await callNumber(1);
  Socket.now.notify(second.id, lines("of b"));
  await vi.waitUntil(() => shown() === "of b");
  Socket.now.notify(first.id, lines("of a"));
  await new Promise((resolve) => setTimeout(resolve));
  expect(shown()).toBe("of b");
});

it("shows why there is no answer, and can request again", async () => {
  render(<Blamed path="a" />, place);
  Socket.now.notify((await callNumber(0)).id, { error: { code: -32000, message: "There is no file a." } });
  await vi.waitUntil(() => shown() === "There is no file a.");
  place.querySelector("button")!.click();
  Socket.now.notify((await callNumber(1)).id, lines("of a"));
  await vi.waitUntil(() => shown() === "of a");
});

it("requests again after a reconnect", async () => {
  render(<Blamed path="a" />, place);
  Socket.now.notify((await callNumber(0)).id, lines("old"));
  await vi.waitUntil(() => shown() === "old");
  Socket.now.onclose?.({ code: 1006 });
  await vi.waitUntil(() => connection.status.value === "lost");
  expect(shown()).toBe("old");
  connection.connect();
  Socket.now.notify((await callNumber(0)).id, lines("new"));
  await vi.waitUntil(() => shown() === "new");
});

it("ignores a second click and reports errors", async () => {
  let action!: Action;
  const problems: string[] = [];
  function Holder() {
    action = useAction((problem) => problems.push(problem));
    return null;
  }
  render(<Holder />, place);
  let runs = 0;
  let finish!: () => void;
  const work = () => {
    runs += 1;
    return new Promise<void>((_, reject) => {
      finish = () => reject(new Error("It is locked."));
    });
  };
  const first = action.run(work);
  await action.run(work);
  finish();
  await first;
  expect(runs).toBe(1);
  expect(problems).toEqual(["It is locked."]);
});
