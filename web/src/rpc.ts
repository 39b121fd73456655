/**
 * The connection to the manager: JSON-RPC over a WebSocket.
 *
 * It reconnects by itself. The manager forgets disconnected clients, so every subscription starts
 * from the beginning after a reconnect, and `restart` tells its follower to discard old state.
 * Calls are never sent twice: a call fails if there is no connection, or if the connection is lost
 * before the answer.
 */
import { signal } from "@preact/signals";
import type { Proof } from "./access";
import type { Answers, Initialized, Refusal, Requests } from "./protocol";

export const PROTOCOL = 1;
const FIRST_WAIT = 500;
const MAX_WAIT = 10_000;
const PROBE_TIMEOUT = 4_000;
/**
 * Milliseconds between pings, until the manager counts as silent, and until the connection is
 * dropped. The user must see within five seconds that the manager does not respond.
 */
const PING_EVERY = 1_500;
const SILENT_AFTER = 2_500;
const CONNECT_TIMEOUT = 4_000;
const DISCONNECT_AFTER = 60_000;
const NORMAL_CLOSE = 1000;
/** Close codes with which the server rejects the token. */
const PROJECT_CLOSE_CODE = 4404;
const REJECTED_CLOSE_CODES = new Set([1008, 4001, 4401, 4403]);

export const UNREACHABLE =
  "Cannot reach the manager. Nothing was sent; try again when the page is connected.";
export const CONNECTION_LOST =
  "The connection was lost before the answer arrived. Check what happened before you try again.";

export const STRANGER =
  "Another program answers at this address, not the manager. Nothing was sent to it.";

/** `shut`: the page has lost access and needs a new link. */
export type Status = "connecting" | "open" | "lost" | "shut";

/** A rejected request. The message is for the user. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly code = 0,
  ) {
    super(message);
  }
}

/** The part of `WebSocket` that is used here. */
export interface Socket {
  onopen: ((event: never) => unknown) | null;
  onmessage: ((event: { data: unknown }) => unknown) | null;
  onclose: ((event: { code: number; reason?: string }) => unknown) | null;
  send(text: string): void;
  close(code?: number): void;
}

export interface Follower {
  /** The subscription starts from the beginning: discard old state with the next message. */
  restart(): void;
  onMessage(message: unknown): void;
  /** The subscription has ended; `problem` is empty unless it failed. */
  ended(problem: string): void;
}

export interface Subscription {
  /** Calls a method of this subscription, for example `widen`. */
  ask(method: string, fields?: object): Promise<unknown>;
  stop(): void;
}

interface PendingCall {
  resolve: (result: unknown) => void;
  reject: (error: Refused) => void;
}

interface Followed {
  method: string;
  params: object;
  follower: Follower;
  id: number | null;
}

interface Message {
  id?: number | string | null;
  method?: string;
  params?: { follow_id?: number; error?: Refusal };
  result?: unknown;
  error?: Refusal;
}

export class Connection {
  readonly status = signal<Status>("connecting");
  /** Why the status is `shut` or `lost`, if more is known. */
  readonly problem = signal("");
  /** The manager accepts connections, but does not respond. */
  readonly silent = signal(false);
  readonly host = signal<Initialized["host"] | null>(null);

  #socket: Socket | null = null;
  #ready = false;
  #number = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #connecting: ReturnType<typeof setTimeout> | undefined;
  #pinging: ReturnType<typeof setInterval> | undefined;
  /** When the unanswered ping was sent; null after any message. */
  #pinged: number | null = null;
  #pending = new Map<number, PendingCall>();
  #followed = new Set<Followed>();
  /** Messages for subscriptions whose id has not arrived yet. */
  #early = new Map<number, Message[]>();

  constructor(
    private readonly open: () => Socket,
    private readonly token: () => string | null,
    private readonly prove: () => Promise<Proof>,
  ) {}

  connect(): void {
    clearTimeout(this.#timer);
    this.#drop();
    const token = this.token();
    if (!token) return this.#shut("");
    this.status.value = this.#failures ? "lost" : "connecting";
    const socket = this.open();
    this.#socket = socket;
    this.#connecting = setTimeout(() => (this.silent.value = true), CONNECT_TIMEOUT);
    socket.onopen = () => void this.#initialize(socket, token);
    socket.onmessage = (event) => this.#socket === socket && this.#onMessage(String(event.data));
    socket.onclose = (event) => this.#socket === socket && this.#closed(event.code, event.reason);
  }

  /**
   * Reconnects immediately, for example when the machine is online again; if connected, checks the
   * connection.
   */
  nudge(): void {
    if (this.status.value === "lost") {
      this.connect();
    } else if (this.status.value === "open") {
      const timer = setTimeout(() => this.#closed(0), PROBE_TIMEOUT);
      this.call("do", { kind: "list_questions" })
        .catch(() => undefined)
        .finally(() => clearTimeout(timer));
    }
  }

  async call(method: string, params: object = {}): Promise<unknown> {
    if (!this.#ready) throw new Refused(UNREACHABLE);
    return this.#send(method, params);
  }

  async request<K extends keyof Requests>(kind: K, fields: Requests[K]): Promise<Answers[K]> {
    return (await this.call("do", { kind, ...fields })) as Answers[K];
  }

  follow(method: string, params: object, follower: Follower): Subscription {
    const followed: Followed = { method, params, follower, id: null };
    this.#followed.add(followed);
    if (this.#ready) void this.#subscribe(followed);
    return {
      ask: (how, fields = {}) =>
        followed.id === null
          ? Promise.reject(new Refused(UNREACHABLE))
          : this.call(how, { follow_id: followed.id, ...fields }),
      stop: () => {
        if (this.#followed.delete(followed) && this.#ready && followed.id !== null) this.#unfollow(followed.id);
      },
    };
  }

  async #initialize(socket: Socket, token: string): Promise<void> {
    const proof = await this.prove();
    if (this.#socket !== socket) return;
    if (proof === "forgotten") return this.#shut("");
    if (proof === "stranger") return this.#closed(0, STRANGER);
    try {
      const reply = (await this.#send("initialize", { protocol: PROTOCOL, token })) as Initialized;
      this.host.value = reply.host;
    } catch (error) {
      if (this.#socket !== socket) return;
      if (error instanceof Refused && error.code) this.#shut(error.message);
      return;
    }
    clearTimeout(this.#connecting);
    this.silent.value = false;
    this.#ready = true;
    this.#failures = 0;
    this.problem.value = "";
    this.status.value = "open";
    this.#pinging = setInterval(() => this.#ping(), PING_EVERY);
    for (const followed of [...this.#followed]) void this.#subscribe(followed);
  }

  async #subscribe(followed: Followed): Promise<void> {
    const { method, params, follower } = followed;
    try {
      const { follow_id } = (await this.call(method, params)) as { follow_id: number };
      if (!this.#followed.has(followed)) return this.#unfollow(follow_id);
      followed.id = follow_id;
      follower.restart();
      const early = this.#early.get(follow_id) ?? [];
      this.#early.delete(follow_id);
      for (const message of early) this.#dispatch(message);
    } catch (error) {
      if (!(error instanceof Refused) || !error.code) return; // the connection was lost; a reconnect follows
      this.#followed.delete(followed);
      follower.ended(error.message);
    }
  }

  #unfollow(follow_id: number): void {
    this.#early.delete(follow_id);
    this.call("unfollow", { follow_id }).catch(() => undefined);
  }

  #send(method: string, params: object): Promise<unknown> {
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  #ping(): void {
    if (this.#pinged === null) {
      this.#pinged = Date.now();
      this.call("ping").catch(() => undefined);
      return;
    }
    const waited = Date.now() - this.#pinged;
    this.silent.value = waited >= SILENT_AFTER;
    if (waited >= DISCONNECT_AFTER) this.#closed(0);
  }

  #onMessage(text: string): void {
    this.#pinged = null;
    this.silent.value = false;
    const message = JSON.parse(text) as Message;
    if (message.method) return this.#dispatch(message);
    const pending = this.#pending.get(message.id as number);
    this.#pending.delete(message.id as number);
    if (message.error) pending?.reject(new Refused(message.error.message, message.error.code));
    else pending?.resolve(message.result);
  }

  #dispatch(message: Message): void {
    const follow_id = message.params?.follow_id ?? -1;
    const followed = [...this.#followed].find((each) => each.id === follow_id);
    if (followed) {
      if (message.method !== "ended") return followed.follower.onMessage(message.params);
      this.#followed.delete(followed);
      followed.follower.ended(message.params?.error?.message ?? "");
    } else if ([...this.#followed].some((each) => each.id === null)) {
      this.#early.set(follow_id, [...(this.#early.get(follow_id) ?? []), message]);
    }
  }

  #closed(code: number, reason = ""): void {
    this.#drop();
    if (REJECTED_CLOSE_CODES.has(code)) return this.#shut("");
    this.problem.value = code === PROJECT_CLOSE_CODE || reason === STRANGER ? reason : "";
    this.status.value = "lost";
    const wait = Math.min(MAX_WAIT, FIRST_WAIT * 2 ** this.#failures++);
    this.#timer = setTimeout(() => this.connect(), wait * (0.75 + Math.random() / 2));
  }

  /** The manager no longer accepts this page's token. */
  refuse(): void {
    this.#shut("");
  }

  #shut(problem: string): void {
    this.#drop();
    if (problem) this.problem.value = problem;
    this.status.value = "shut";
  }

  #drop(): void {
    clearInterval(this.#pinging);
    clearTimeout(this.#connecting);
    this.#pinged = null;
    this.silent.value = false;
    const socket = this.#socket;
    this.#socket = null;
    this.#ready = false;
    this.#early.clear();
    for (const followed of this.#followed) followed.id = null;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const each of pending) each.reject(new Refused(CONNECTION_LOST));
    socket?.close(NORMAL_CLOSE);
  }
}
