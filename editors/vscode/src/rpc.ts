/** JSON-RPC over two streams, one message per line. Both sides may ask. */
import type { Readable, Writable } from "node:stream";

export type Wire = Record<string, any>;
export type Handler = (method: string, params: Wire) => Promise<unknown>;

export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** The other side has closed the connection. */
export class Disconnected extends Error {
  constructor() {
    super("The connection to rookery is closed.");
  }
}

export const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;

interface Waiting {
  resolve(result: any): void;
  reject(error: Error): void;
}

export class Peer {
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;
  private rest = "";
  private closed = false;

  constructor(
    input: Readable,
    private readonly output: Writable,
    private readonly answer: Handler,
    private readonly notified: (method: string, params: Wire) => void,
  ) {
    input.setEncoding("utf8");
    input.on("data", (text: string) => this.read(text));
    input.on("close", () => this.close());
    output.on("error", () => this.close());
  }

  request(method: string, params: Wire): Promise<any> {
    if (this.closed) return Promise.reject(new Disconnected());
    const id = ++this.lastId;
    const answered = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.send({ id, method, params });
    return answered;
  }

  notify(method: string, params: Wire): void {
    this.send({ method, params });
  }

  private send(message: Wire): void {
    if (!this.closed) this.output.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  private close(): void {
    this.closed = true;
    for (const each of this.waiting.values()) each.reject(new Disconnected());
    this.waiting.clear();
  }

  private read(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      const message = parsed(line);
      if (message) this.take(message);
    }
  }

  private take(message: Wire): void {
    if (typeof message.method !== "string") return this.settle(message);
    const params = isObject(message.params) ? message.params : {};
    if (message.id === undefined) return this.notified(message.method, params);
    void this.reply(message.id, message.method, params);
  }

  private settle(message: Wire): void {
    const waiting = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    const { error } = message;
    if (error) waiting?.reject(new RpcError(error.code, String(error.message)));
    else waiting?.resolve(message.result);
  }

  private async reply(id: unknown, method: string, params: Wire): Promise<void> {
    try {
      this.send({ id, result: (await this.answer(method, params)) ?? {} });
    } catch (error) {
      const code = error instanceof RpcError ? error.code : INTERNAL_ERROR;
      this.send({ id, error: { code, message: messageOf(error) } });
    }
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function parsed(line: string): Wire | null {
  try {
    const message: unknown = JSON.parse(line);
    return isObject(message) ? message : null;
  } catch {
    return null; // not a message of the protocol
  }
}

function isObject(value: unknown): value is Wire {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
