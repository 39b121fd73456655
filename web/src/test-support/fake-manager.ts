/** A fake manager behind the page's WebSocket. It records requests and answers them. */
import { vi } from "vitest";
import { connection } from "../connection";

type Said = Record<string, unknown> & { kind?: string };

export class FakeManager {
  /** All requests, in order. */
  readonly asked: Said[] = [];
  readonly answers: Record<string, unknown> = {};
  /** Error messages by kind of request. */
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

  /** Drops the connection and reconnects. */
  async breakOff(): Promise<void> {
    this.#socket!.onclose?.({ code: 1006 });
    connection.nudge();
    await this.#connected();
  }

  /** All requests of one kind. */
  of(kind: string): Said[] {
    return this.asked.filter((each) => each.kind === kind);
  }

  /** The parameters of each call of a method. */
  said(method: string): Said[] {
    return this.#calls.filter((each) => each.method === method).map((each) => each.params);
  }

  /** Waits until a method was called this often, and answered. */
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
