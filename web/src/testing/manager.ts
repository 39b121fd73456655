/** A manager played by a test: it takes the page's socket, and records and answers what is said. */
import { vi } from "vitest";
import { connection } from "../connection";

type Said = Record<string, unknown> & { kind?: string };

export class FakeManager {
  /** What was asked for, in order. */
  readonly asked: Said[] = [];
  readonly answers: Record<string, unknown> = {};
  /** Sentences with which kinds of requests are refused. */
  readonly refusals: Record<string, string> = {};
  #calls: { method: string; params: Said }[] = [];
  #socket: WebSocketLike | null = null;

  async welcome(): Promise<void> {
    sessionStorage.setItem("rookery.token", "token");
    vi.stubGlobal(
      "WebSocket",
      socketFor((socket) => (this.#socket = socket), (message) => this.#hear(message)),
    );
    connection.connect();
    await this.#connected();
  }

  /** The connection breaks, and is there again. */
  async breakOff(): Promise<void> {
    this.#socket!.onclose?.({ code: 1006 });
    connection.nudge();
    await this.#connected();
  }

  /** What was asked for of one kind. */
  of(kind: string): Said[] {
    return this.asked.filter((each) => each.kind === kind);
  }

  /** What a method was called with, each time. */
  said(method: string): Said[] {
    return this.#calls.filter((each) => each.method === method).map((each) => each.params);
  }

  /** Until a method was called so often, and answered. */
  async heard(method: string, times = 1): Promise<void> {
    await vi.waitFor(() => {
      if (this.said(method).length < times) throw new Error(`${method} was not called ${times} times`);
    });
    await new Promise((resolve) => setTimeout(resolve));
  }

  tell(method: string, params: object): void {
    this.#socket!.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", method, params }) });
  }

  async #connected(): Promise<void> {
    this.#socket!.onopen?.();
    await vi.waitFor(() => {
      if (connection.status.value !== "open") throw new Error("not connected");
    });
  }

  #hear({ id, method, params }: { id: number; method: string; params: Said }): void {
    this.#calls.push({ method, params });
    if (method === "do") this.asked.push(params);
    const name = params.kind ?? method;
    const refusal = this.refusals[name];
    const result = method === "initialize" ? { host: {} } : (this.answers[name] ?? { notes: [] });
    const told = refusal ? { error: { code: -32001, message: refusal } } : { result };
    queueMicrotask(() => this.#socket!.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", id, ...told }) }));
  }
}

interface WebSocketLike {
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: (event: { code: number }) => void;
}

function socketFor(made: (socket: WebSocketLike) => void, heard: (message: never) => void) {
  return class implements WebSocketLike {
    onopen?: () => void;
    onmessage?: (event: { data: string }) => void;
    onclose?: (event: { code: number }) => void;
    constructor() {
      made(this);
    }
    send(text: string): void {
      heard(JSON.parse(text) as never);
    }
    close(): void {}
  };
}
