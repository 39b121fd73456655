/**
 * The connection to the manager: JSON-RPC over a WebSocket.
 *
 * It reconnects by itself. The manager forgets disconnected clients, so every subscription starts
 * from the beginning after a reconnect, and `restart` tells its follower to discard old state.
 * Calls are never sent twice: a call fails if there is no connection, or if the connection is lost
 * before the answer.
 */
import { signal } from "@preact/signals";
import type { Answers, Initialized, Refusal, Requests } from "./protocol";

export const PROTOCOL = 1;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
const PROBE_TIMEOUT = 4_000;
/** Milliseconds between pings, until the manager counts as silent, and until the connection is dropped. */
const PING_EVERY = 3_000;
const SILENT_AFTER = 6_000;
const GIVEN_UP_AFTER = 60_000;
const NORMAL_CLOSE = 1000;
/** Close codes with which the server rejects the token. */
const CLOSED_AS_STRANGER = new Set([1008, 4001, 4401, 4403]);

export const UNREACHABLE =
  "Cannot reach the manager. Nothing was sent; try again when the page is connected.";
export const BROKEN_OFF =
  "The connection was lost before the answer arrived. Check what happened before you try again.";

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
  onclose: ((event: { code: number }) => unknown) | null;
  send(text: string): void;
  close(code?: number): void;
}

export interface Follower {
  /** The subscription starts from the beginning: discard old state with the next message. */
  restart(): void;
  hear(news: unknown): void;
  /** The subscription has ended; `problem` is empty unless it failed. */
  ended(problem: string): void;
}

export interface Following {
  /** Calls a method of this subscription, for example `widen`. */
  ask(method: string, fields?: object): Promise<unknown>;
  stop(): void;
}

interface Waiting {
  resolve: (result: unknown) => void;
  reject: (error: Refused) => void;
}

interface Followed {
  method: string;
  params: object;
  follower: Follower;
  id: number | null;
}

interface Told {
  id?: number | string | null;
  method?: string;
  params?: { follow_id?: number; error?: Refusal };
  result?: unknown;
  error?: Refusal;
}

export class Connection {
  readonly status = signal<Status>("connecting");
  /** Why the status is `shut`. */
  readonly problem = signal("");
  /** The socket is open, but the manager does not respond. */
  readonly silent = signal(false);
  readonly host = signal<Initialized["host"] | null>(null);

  #socket: Socket | null = null;
  #ready = false;
  #number = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pinging: ReturnType<typeof setInterval> | undefined;
  /** When the unanswered ping was sent; null after any message. */
  #pinged: number | null = null;
  #waiting = new Map<number, Waiting>();
  #followed = new Set<Followed>();
  /** Messages for subscriptions whose id has not arrived yet. */
  #early = new Map<number, Told[]>();

  constructor(
    private readonly open: () => Socket,
    private readonly token: () => string | null,
  ) {}

  connect(): void {
    clearTimeout(this.#timer);
    this.#drop();
    const token = this.token();
    if (!token) return this.#shut("");
    this.status.value = this.#failures ? "lost" : "connecting";
    const socket = this.open();
    this.#socket = socket;
    socket.onopen = () => void this.#introduce(socket, token);
    socket.onmessage = (event) => this.#socket === socket && this.#hear(String(event.data));
    socket.onclose = (event) => this.#socket === socket && this.#closed(event.code);
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

  async request<K extends keyof Requests>(kind: K, fields: Omit<Requests[K], "kind">): Promise<Answers[K]> {
    return (await this.call("do", { kind, ...fields })) as Answers[K];
  }

  follow(method: string, params: object, follower: Follower): Following {
    const followed: Followed = { method, params, follower, id: null };
    this.#followed.add(followed);
    if (this.#ready) void this.#takeUp(followed);
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

  async #introduce(socket: Socket, token: string): Promise<void> {
    try {
      const told = (await this.#send("initialize", { protocol: PROTOCOL, token })) as Initialized;
      this.host.value = told.host;
    } catch (error) {
      if (this.#socket !== socket) return;
      if (error instanceof Refused && error.code) this.#shut(error.message);
      return;
    }
    this.#ready = true;
    this.#failures = 0;
    this.problem.value = "";
    this.status.value = "open";
    this.#pinging = setInterval(() => this.#ping(), PING_EVERY);
    for (const followed of [...this.#followed]) void this.#takeUp(followed);
  }

  async #takeUp(followed: Followed): Promise<void> {
    const { method, params, follower } = followed;
    try {
      const { follow_id } = (await this.call(method, params)) as { follow_id: number };
      if (!this.#followed.has(followed)) return this.#unfollow(follow_id);
      followed.id = follow_id;
      follower.restart();
      const early = this.#early.get(follow_id) ?? [];
      this.#early.delete(follow_id);
      for (const told of early) this.#tell(told);
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
      this.#waiting.set(id, { resolve, reject });
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
    if (waited >= GIVEN_UP_AFTER) this.#closed(0);
  }

  #hear(text: string): void {
    this.#pinged = null;
    this.silent.value = false;
    const told = JSON.parse(text) as Told;
    if (told.method) return this.#tell(told);
    const waiting = this.#waiting.get(told.id as number);
    this.#waiting.delete(told.id as number);
    if (told.error) waiting?.reject(new Refused(told.error.message, told.error.code));
    else waiting?.resolve(told.result);
  }

  #tell(told: Told): void {
    const follow_id = told.params?.follow_id ?? -1;
    const followed = [...this.#followed].find((each) => each.id === follow_id);
    if (followed) {
      if (told.method !== "ended") return followed.follower.hear(told.params);
      this.#followed.delete(followed);
      followed.follower.ended(told.params?.error?.message ?? "");
    } else if ([...this.#followed].some((each) => each.id === null)) {
      this.#early.set(follow_id, [...(this.#early.get(follow_id) ?? []), told]);
    }
  }

  #closed(code: number): void {
    this.#drop();
    if (CLOSED_AS_STRANGER.has(code)) return this.#shut("");
    this.status.value = "lost";
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#failures++);
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
    this.#pinged = null;
    this.silent.value = false;
    const socket = this.#socket;
    this.#socket = null;
    this.#ready = false;
    this.#early.clear();
    for (const followed of this.#followed) followed.id = null;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const each of waiting) each.reject(new Refused(BROKEN_OFF));
    socket?.close(NORMAL_CLOSE);
  }
}
