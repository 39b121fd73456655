/** A fake manager behind the page's WebSocket. It records requests and answers them. */
import { vi } from "vitest";
import { connection } from "../connection";

type Params = Record<string, unknown> & { kind?: string };

export class FakeManager {
  /** All requests, in order. */
  readonly requests: Params[] = [];
  readonly answers: Record<string, unknown> = {};
  /** Error messages by kind of request. */
  readonly refusals: Record<string, string> = {};
  #calls: { method: string; params: Params }[] = [];
  #socket: WebSocketLike | null = null;

  async connect(): Promise<void> {
    localStorage.setItem("rookery.token", "token");
    vi.stubGlobal("crypto", { randomUUID: () => "" }); // without cryptography no proof is asked for
    vi.stubGlobal(
      "WebSocket",
      socketFor((socket) => (this.#socket = socket), (message) => this.#onMessage(message)),
    );
    connection.connect();
    await this.#connected();
  }

  /** Drops the connection and reconnects. */
  async reconnect(): Promise<void> {
    this.#socket!.onclose?.({ code: 1006 });
    connection.nudge();
    await this.#connected();
  }

  /** All requests of one kind. */
  requestsOf(kind: string): Params[] {
    return this.requests.filter((each) => each.kind === kind);
  }

  /** The parameters of each call of a method. */
  callsOf(method: string): Params[] {
    return this.#calls.filter((each) => each.method === method).map((each) => each.params);
  }

  /** Waits until a method was called this often, and answered. */
  async waitForCall(method: string, times = 1): Promise<void> {
    await vi.waitFor(() => {
      if (this.callsOf(method).length < times) throw new Error(`${method} was not called ${times} times`);
    });
    await new Promise((resolve) => setTimeout(resolve));
  }

  notify(method: string, params: object): void {
    this.#socket!.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method, params }) });
  }

  async #connected(): Promise<void> {
    this.#socket!.onopen?.();
    await vi.waitFor(() => {
      if (connection.status.value !== "open") throw new Error("not connected");
    });
  }

  #onMessage({ id, method, params }: { id: number; method: string; params: Params }): void {
    this.#calls.push({ method, params });
    if (method === "do") this.requests.push(params);
    const name = params.kind ?? method;
    const refusal = this.refusals[name];
    const result = method === "initialize" ? { host: {} } : (this.answers[name] ?? { notes: [] });
    const reply = refusal ? { error: { code: -32001, message: refusal } } : { result };
    queueMicrotask(() => this.#socket!.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id, ...reply }) }));
  }
}

interface WebSocketLike {
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: (event: { code: number }) => void;
}

function socketFor(onOpen: (socket: WebSocketLike) => void, onMessage: (message: never) => void) {
  return class implements WebSocketLike {
    onopen?: () => void;
    onmessage?: (event: { data: string }) => void;
    onclose?: (event: { code: number }) => void;
    constructor() {
      onOpen(this);
    }
    send(text: string): void {
      onMessage(JSON.parse(text) as never);
    }
    close(): void {}
  };
}
