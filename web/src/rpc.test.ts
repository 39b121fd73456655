import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Proof } from "./access";
import { CONNECTION_LOST, Connection, Refused, type Socket, STRANGER, UNREACHABLE } from "./rpc";

interface Call {
  id: number;
  method: string;
  params: Record<string, unknown>;
}

/** The other end of a socket, controlled by the test. */
class Wire implements Socket {
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  calls: Call[] = [];
  closed = false;

  send(text: string): void {
    this.calls.push(JSON.parse(text) as Call);
  }
  close(): void {
    this.closed = true;
  }
  receive(message: object): void {
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  }
  last(method: string): Call {
    const call = this.calls.findLast((each) => each.method === method);
    if (!call) throw new Error(`not called: ${method}`);
    return call;
  }
  async answer(method: string, result: unknown): Promise<void> {
    this.receive({ id: this.last(method).id, result });
    await settled();
  }
  async refuse(method: string, code: number, message: string): Promise<void> {
    this.receive({ id: this.last(method).id, error: { code, message } });
    await settled();
  }
  async accept(): Promise<void> {
    this.onopen?.(undefined as never);
    await settled();
    await this.answer("initialize", { protocol: 1, host: { name: "rookery", version: "1" }, requests: [] });
  }
}

const settled = () => vi.advanceTimersByTimeAsync(0);

let wires: Wire[];
let token: string | null;
let proof: Proof;
let connection: Connection;
const wire = () => wires.at(-1)!;

beforeEach(() => {
  vi.useFakeTimers();
  wires = [];
  token = "secret";
  proof = "known";
  connection = new Connection(
    () => {
      wires.push(new Wire());
      return wire();
    },
    () => token,
    async () => proof,
  );
});

afterEach(() => vi.useRealTimers());

async function connected(): Promise<void> {
  connection.connect();
  await wire().accept();
}

function recorder() {
  const received: unknown[] = [];
  return {
    received,
    restart: () => received.push("restart"),
    onMessage: (message: unknown) => received.push(message),
    ended: (problem: string) => received.push(["ended", problem]),
  };
}

describe("connecting", () => {
  it("sends the token first, and nothing else before the answer", async () => {
    connection.follow("follow_list", {}, recorder());
    connection.connect();
    wire().onopen?.(undefined as never);
    await settled();
    expect(wire().calls).toMatchObject([{ method: "initialize", params: { protocol: 1, token: "secret" } }]);
    await wire().answer("initialize", { protocol: 1, host: { name: "rookery", version: "2" }, requests: [] });
    expect(wire().calls.map((each) => each.method)).toEqual(["initialize", "follow_list"]);
    expect(connection.status.value).toBe("open");
    expect(connection.host.value?.version).toBe("2");
  });

  it("without a token opens no socket", () => {
    token = null;
    connection.connect();
    expect(wires).toEqual([]);
    expect(connection.status.value).toBe("shut");
  });

  it("without a token keeps the existing error message", () => {
    token = null;
    connection.problem.value = "This link was used already.";
    connection.connect();
    expect(connection.problem.value).toBe("This link was used already.");
  });

  it("is not retried after the token was rejected", async () => {
    connection.connect();
    wire().onopen?.(undefined as never);
    await settled();
    await wire().refuse("initialize", -32003, "This token is not known here.");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(wires).toHaveLength(1);
    expect([connection.status.value, connection.problem.value]).toEqual(["shut", "This token is not known here."]);
  });

  it("is not retried after the server closed the socket with a rejection", async () => {
    connection.connect();
    wire().onclose?.({ code: 1008 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(wires).toHaveLength(1);
    expect(connection.status.value).toBe("shut");
  });
});

describe("calls", () => {
  it("get their own answers, in any order", async () => {
    await connected();
    const one = connection.request("list_models", {});
    const other = connection.request("list_modes", {});
    const [first, second] = wire().calls.slice(-2) as [Call, Call];
    wire().receive({ id: second.id, result: ["modes"] });
    wire().receive({ id: first.id, result: ["models"] });
    expect([await one, await other]).toEqual([["models"], ["modes"]]);
  });

  it("carry their kind and fields", async () => {
    await connected();
    void connection.request("rename_session", { session_id: "s", label: "New" });
    expect(wire().last("do").params).toEqual({ kind: "rename_session", session_id: "s", label: "New" });
  });

  it("fail with the message of the manager", async () => {
    await connected();
    const asked = connection.request("cancel_session", { session_id: "s" });
    const refused = expect(asked).rejects.toThrow(new Refused("There is no session s.", -32001));
    await wire().refuse("do", -32001, "There is no session s.");
    await refused;
  });

  it("fail immediately without a connection, and are not sent later", async () => {
    await connected();
    wire().onclose?.({ code: 1006 });
    await expect(connection.call("do")).rejects.toThrow(UNREACHABLE);
    await vi.advanceTimersByTimeAsync(2_000);
    await wire().accept();
    expect(wire().calls.filter((each) => each.method === "do")).toEqual([]);
  });

  it("fail if the connection is lost meanwhile, and are not sent again", async () => {
    await connected();
    const asked = connection.call("do", { kind: "stop_all" });
    const refused = expect(asked).rejects.toThrow(CONNECTION_LOST);
    wire().onclose?.({ code: 1006 });
    await refused;
    await vi.advanceTimersByTimeAsync(2_000);
    await wire().accept();
    expect(wire().calls.map((each) => each.method)).toEqual(["initialize"]);
  });
});

describe("reconnecting", () => {
  it("waits longer each time, up to a limit", async () => {
    connection.connect();
    const waits: number[] = [];
    for (let attempt = 0; attempt < 8; attempt++) {
      const before = Date.now();
      const count = wires.length;
      wire().onclose?.({ code: 1006 });
      while (wires.length === count) await vi.advanceTimersByTimeAsync(50);
      waits.push(Date.now() - before);
    }
    expect(connection.status.value).toBe("lost");
    expect(waits[0]).toBeLessThan(1_000);
    expect(waits[3]).toBeGreaterThan(waits[0]!);
    expect(Math.max(...waits)).toBeLessThan(13_000);
  });

  it("subscribes again after a restart notice", async () => {
    await connected();
    const follower = recorder();
    connection.follow("follow_session", { session_id: "s" }, follower);
    await wire().answer("follow_session", { follow_id: 7 });
    wire().receive({ method: "view", params: { follow_id: 7, seq: 1 } });
    wire().onclose?.({ code: 1006 });
    await vi.advanceTimersByTimeAsync(2_000);
    await wire().accept();
    expect(wire().last("follow_session").params).toEqual({ session_id: "s" });
    await wire().answer("follow_session", { follow_id: 1 });
    wire().receive({ method: "view", params: { follow_id: 1, seq: 9 } });
    expect(follower.received).toEqual(["restart", { follow_id: 7, seq: 1 }, "restart", { follow_id: 1, seq: 9 }]);
  });

  it("happens immediately on request", async () => {
    connection.connect();
    wire().onclose?.({ code: 1006 });
    connection.nudge();
    expect(wires).toHaveLength(2);
  });

  it("happens if a dead connection does not answer", async () => {
    await connected();
    connection.nudge();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(wires[0]!.closed).toBe(true);
    expect(wires.length).toBeGreaterThan(1);
  });

  it("does not happen if the connection answers", async () => {
    await connected();
    connection.nudge();
    await wire().answer("do", []);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([wires.length, connection.status.value]).toEqual([1, "open"]);
  });

  it("ignores the old socket", async () => {
    await connected();
    const old = wire();
    const follower = recorder();
    connection.follow("follow_list", {}, follower);
    await old.answer("follow_list", { follow_id: 1 });
    old.onclose?.({ code: 1006 });
    connection.nudge();
    await wire().accept();
    await wire().answer("follow_list", { follow_id: 1 });
    old.receive({ method: "list", params: { follow_id: 1, from: "the old one" } });
    old.onclose?.({ code: 1006 });
    expect(follower.received).toEqual(["restart", "restart"]);
    expect(connection.status.value).toBe("open");
  });
});

describe("subscribing", () => {
  it("delivers messages that arrive before the id", async () => {
    await connected();
    const follower = recorder();
    connection.follow("follow_list", {}, follower);
    wire().receive({ method: "list", params: { follow_id: 3, order: ["a"] } });
    await wire().answer("follow_list", { follow_id: 3 });
    expect(follower.received).toEqual(["restart", { follow_id: 3, order: ["a"] }]);
  });

  it("keeps several subscriptions apart", async () => {
    await connected();
    const [one, other] = [recorder(), recorder()];
    connection.follow("follow_session", { session_id: "a" }, one);
    await wire().answer("follow_session", { follow_id: 1 });
    connection.follow("follow_session", { session_id: "b" }, other);
    await wire().answer("follow_session", { follow_id: 2 });
    wire().receive({ method: "view", params: { follow_id: 2, seq: 5 } });
    expect([one.received, other.received]).toEqual([["restart"], ["restart", { follow_id: 2, seq: 5 }]]);
  });

  it("ends once, with a reason", async () => {
    await connected();
    const follower = recorder();
    connection.follow("follow_session", { session_id: "a" }, follower);
    await wire().answer("follow_session", { follow_id: 1 });
    wire().receive({ method: "ended", params: { follow_id: 1, error: { code: -32001, message: "It was removed." } } });
    wire().receive({ method: "view", params: { follow_id: 1, seq: 5 } });
    expect(follower.received).toEqual(["restart", ["ended", "It was removed."]]);
  });

  it("is not retried after it was refused", async () => {
    await connected();
    const follower = recorder();
    connection.follow("follow_session", { session_id: "a" }, follower);
    await wire().refuse("follow_session", -32001, "There is no session a.");
    wire().onclose?.({ code: 1006 });
    connection.nudge();
    await wire().accept();
    expect(follower.received).toEqual([["ended", "There is no session a."]]);
    expect(wire().calls).toHaveLength(1);
  });

  it("stops on both sides, even before it has started", async () => {
    await connected();
    const follower = recorder();
    const following = connection.follow("follow_session", { session_id: "a" }, follower);
    following.stop();
    await wire().answer("follow_session", { follow_id: 4 });
    expect(wire().last("unfollow").params).toEqual({ follow_id: 4 });
    wire().receive({ method: "view", params: { follow_id: 4, seq: 1 } });
    expect(follower.received).toEqual([]);
  });

  it("calls methods with the id of the subscription", async () => {
    await connected();
    const following = connection.follow("follow_session", { session_id: "a" }, recorder());
    await expect(following.ask("widen")).rejects.toThrow(UNREACHABLE);
    await wire().answer("follow_session", { follow_id: 4 });
    void following.ask("widen", { most: 100 });
    expect(wire().last("widen").params).toEqual({ follow_id: 4, most: 100 });
  });
});

describe("a server that is not the manager", () => {
  it("never gets the token", async () => {
    proof = "stranger";
    connection.connect();
    wire().onopen?.(undefined as never);
    await settled();
    expect(wire().calls).toEqual([]);
    expect([connection.status.value, connection.problem.value]).toEqual(["lost", STRANGER]);
    proof = "known";
    connection.nudge();
    await wire().accept();
    expect([connection.status.value, connection.problem.value]).toEqual(["open", ""]);
  });

  it("may be a manager that forgot this browser", async () => {
    proof = "forgotten";
    connection.connect();
    wire().onopen?.(undefined as never);
    await settled();
    expect([wire().calls, connection.status.value]).toEqual([[], "shut"]);
  });
});

it("a project that cannot be opened is named, and tried again", async () => {
  await connected();
  wire().onclose?.({ code: 4404, reason: "Process 5 has the sessions open." });
  expect([connection.status.value, connection.problem.value]).toEqual(["lost", "Process 5 has the sessions open."]);
});

describe("a manager that does not respond", () => {
  it("is noticed within five seconds, whenever it stops", async () => {
    for (const after of [0, 400, 1_499]) {
      await connected();
      await vi.advanceTimersByTimeAsync(after);
      await vi.advanceTimersByTimeAsync(4_900);
      expect(connection.silent.value, `stopped after ${after} ms`).toBe(true);
    }
  });

  it("is noticed although it never accepted the connection", async () => {
    connection.connect();
    await vi.advanceTimersByTimeAsync(4_900);
    expect(connection.silent.value).toBe(true);
    await wire().accept();
    expect(connection.silent.value).toBe(false);
  });

  it("is detected although the socket is open, and so is its return", async () => {
    await connected();
    await vi.advanceTimersByTimeAsync(1_600);
    expect(wire().last("ping").params).toEqual({});
    expect(connection.silent.value).toBe(false);
    await vi.advanceTimersByTimeAsync(9_000);
    expect([connection.silent.value, connection.status.value]).toEqual([true, "open"]);
    await wire().answer("ping", null);
    expect(connection.silent.value).toBe(false);
  });

  it("counts as responding while any message arrives", async () => {
    await connected();
    for (let times = 0; times < 10; times++) {
      await vi.advanceTimersByTimeAsync(2_000);
      wire().receive({ method: "list", params: { follow_id: 9 } });
    }
    expect(connection.silent.value).toBe(false);
  });

  it("is disconnected after a minute, and connected again", async () => {
    await connected();
    const before = wires.length;
    await vi.advanceTimersByTimeAsync(70_000);
    expect(wires.length).toBeGreaterThan(before);
    await wire().accept();
    expect([connection.silent.value, connection.status.value]).toEqual([false, "open"]);
  });
});
