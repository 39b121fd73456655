/** One chat: the agent's process, its session, and what the view shows. Free of VS Code. */
import { readFileSync } from "node:fs";
import { Agent, type AgentListener, type Program } from "./agent.ts";
import { type Attachment, MENTIONS, promptBlocks, selectionAttachment } from "./context.ts";
import { type ConfigOption, Conversation, type PlanEntry, type Row, type SlashCommand } from "./conversation.ts";
import type { Editor } from "./editor.ts";
import { type Question, Questions } from "./questions.ts";
import { Disconnected, messageOf, RpcError, type Wire } from "./rpc.ts";

export interface Status {
  title: string;
  busy: boolean;
  needsKey: boolean;
  usage: string;
  plan: PlanEntry[];
  options: ConfigOption[];
  completions: SlashCommand[];
  attached: string[];
  questions: Question[];
}

/** What the view gets: changed rows, and the rest as a whole. */
export type ToView = { kind: "rows"; reset: boolean; rows: Row[] } | { kind: "status"; status: Status } | { kind: "focus" };

export type FromView =
  | { kind: "ready" | "stop" | "signIn" }
  | { kind: "prompt"; text: string }
  | { kind: "detach"; index: number }
  | { kind: "choose"; question: string; option: string }
  | { kind: "say"; question: string; text: string }
  | { kind: "option"; id: string; value: string }
  | { kind: "showDiff"; question: string };

export interface KnownSession {
  id: string;
  title: string;
  updated: string;
}

const AUTH_REQUIRED = -32000;
const NO_FOLDER = "Open a folder first. The agent works in the folder of the workspace.";

export class Chat implements AgentListener {
  readonly questions: Questions;
  private conversation = new Conversation();
  private agent: Agent | null = null;
  private sessionId = "";
  private opening: Promise<void> | null = null;
  private attached: Attachment[] = [];
  private prompts = 0;
  private needsKey = false;

  constructor(
    private readonly program: () => Program,
    private readonly editor: Editor,
    private readonly show: (message: ToView) => void,
  ) {
    this.questions = new Questions((path) => this.textOf(path), () => this.showStatus());
  }

  showAll(): void {
    this.show({ kind: "rows", reset: true, rows: [...this.conversation.rows.values()] });
    this.showStatus();
  }

  /** Handle a message of the view. Returns false for those that only VS Code can handle. */
  async take(message: FromView): Promise<boolean> {
    switch (message.kind) {
      case "ready":
        this.showAll();
        await this.attempt(() => this.connected());
        return true;
      case "prompt":
        await this.prompt(message.text);
        return true;
      case "stop":
        this.stop();
        return true;
      case "detach":
        this.attached.splice(message.index, 1);
        this.showStatus();
        return true;
      case "choose":
        this.questions.choose(message.question, message.option);
        return true;
      case "say":
        this.questions.say(message.question, message.text);
        return true;
      case "option":
        await this.attempt(() => this.setOption(message.id, message.value));
        return true;
      default:
        return false;
    }
  }

  async prompt(text: string): Promise<void> {
    const attached = this.attached;
    const blocks = promptBlocks(text, attached, this.editor);
    if (blocks.length === 0) return;
    this.attached = [];
    const labels = attached.map((each) => `[${each.label}]`);
    this.showRow(this.conversation.add("user", [text, ...labels].filter(Boolean).join("\n")));
    this.prompts += 1;
    this.showStatus();
    const { conversation } = this;
    await this.attempt(async () => {
      await this.connected();
      const { stopReason } = await this.request("session/prompt", { sessionId: this.sessionId, prompt: blocks });
      if (stopReason === "end_turn" || conversation !== this.conversation) return;
      this.showRow(conversation.add("notice", stopText(stopReason)));
    });
    this.prompts -= 1;
    this.showStatus();
  }

  /** Cancel the turn. Its open questions are closed, which approves nothing. */
  stop(): void {
    this.questions.close();
    if (this.prompts) this.agent?.notify("session/cancel", { sessionId: this.sessionId });
  }

  addSelection(): boolean {
    const attachment = selectionAttachment(this.editor);
    if (!attachment) return false;
    this.attached.push(attachment);
    this.showStatus();
    this.show({ kind: "focus" });
    return true;
  }

  async newSession(): Promise<void> {
    await this.leave();
    await this.attempt(() => this.connected());
  }

  async sessions(): Promise<KnownSession[]> {
    await this.connected();
    const cwd = this.editor.folders()[0];
    const { sessions } = await this.request("session/list", { cwd });
    return sessions.map((each: Wire) => ({ id: each.sessionId, title: each.title, updated: each.updatedAt }));
  }

  async loadSession(id: string): Promise<void> {
    await this.leave();
    await this.attempt(() => (this.opening = this.open("session/load", id)));
  }

  /** End the process. The session is kept. */
  end(): void {
    this.questions.close();
    this.agent?.stop();
    this.agent = null;
  }

  updated(sessionId: string, update: Wire): void {
    if (sessionId !== this.sessionId) return;
    const row = this.conversation.update(update);
    if (row) this.showRow(row);
    else this.showStatus();
  }

  askPermission(params: Wire): Promise<Wire> {
    if (params.sessionId !== this.sessionId) return Promise.resolve({ outcome: { outcome: "cancelled" } });
    return this.questions.askPermission(params);
  }

  askForm(params: Wire): Promise<Wire> {
    if (params.sessionId !== this.sessionId) return Promise.resolve({ action: "cancel" });
    return this.questions.askForm(params);
  }

  ended(reason: string): void {
    this.agent = null;
    this.opening = null;
    this.questions.close();
    const kept = this.sessionId ? "The session is kept. " : "";
    this.fail(`${reason}\n${kept}Your next message starts rookery again.`);
  }

  /** Start the process and open a session, once. After the process ended, the session is resumed. */
  private connected(): Promise<void> {
    const started = this.conversation.rows.size > 0 && this.sessionId;
    this.opening ??= started ? this.open("session/resume", this.sessionId) : this.open("session/new", "");
    const { opening } = this;
    opening.catch(() => {
      if (this.opening === opening) this.opening = null;
    });
    return opening;
  }

  private async open(method: string, sessionId: string): Promise<void> {
    const [cwd, ...more] = this.editor.folders();
    if (!cwd) throw new Error(NO_FOLDER);
    this.sessionId = sessionId; // the replay of a loaded session comes before the answer
    this.agent ??= new Agent(this.program(), this.editor, this);
    const params = { cwd, mcpServers: [], ...(more.length ? { additionalDirectories: more } : {}) };
    const opened = await this.request(method, sessionId ? { ...params, sessionId } : params);
    this.sessionId = sessionId || opened.sessionId;
    this.conversation.setOptions(opened.configOptions);
    this.needsKey = false;
    this.showStatus();
  }

  private async leave(): Promise<void> {
    this.stop();
    const { sessionId } = this;
    this.sessionId = "";
    this.opening = null;
    this.conversation = new Conversation();
    this.showAll();
    if (sessionId && this.agent) await this.request("session/close", { sessionId }).catch(() => {});
  }

  private async setOption(configId: string, value: string): Promise<void> {
    await this.connected();
    const params = { sessionId: this.sessionId, configId, value };
    try {
      this.conversation.setOptions((await this.request("session/set_config_option", params)).configOptions);
    } finally {
      this.showStatus(); // what is chosen really
    }
  }

  private request(method: string, params: Wire): Promise<any> {
    if (!this.agent) return Promise.reject(new Disconnected());
    return this.agent.request(method, params);
  }

  private async attempt(work: () => Promise<unknown>): Promise<void> {
    const { conversation } = this;
    try {
      await work();
    } catch (error) {
      if (conversation !== this.conversation) return; // its session was left
      this.needsKey = error instanceof RpcError && error.code === AUTH_REQUIRED;
      // `ended` reports the end of the process
      if (!(error instanceof Disconnected)) this.fail(messageOf(error));
    }
  }

  private fail(reason: string): void {
    this.showRow(this.conversation.add("error", reason));
    this.showStatus();
  }

  private showRow(row: Row): void {
    this.show({ kind: "rows", reset: false, rows: [row] });
  }

  private showStatus(): void {
    const { title, usage, plan, options, commands } = this.conversation;
    const status = {
      ...{ title, usage, plan, options },
      busy: this.prompts > 0,
      needsKey: this.needsKey,
      completions: [...MENTIONS, ...commands],
      attached: this.attached.map((each) => each.label),
      questions: this.questions.open(),
    };
    this.show({ kind: "status", status });
  }

  private textOf(path: string): string | null {
    const document = this.editor.document(path);
    if (document) return document.text;
    try {
      return readFileSync(path, "utf8");
    } catch {
      return null; // a new file
    }
  }
}

function stopText(reason: string): string {
  const texts: Record<string, string> = {
    cancelled: "Stopped.",
    refusal: "The model refused to answer.",
    max_tokens: "The answer was cut off at the model's limit.",
    max_turn_requests: "This session has reached a limit of requests, cost, tokens or time.",
  };
  return texts[reason] ?? `Ended: ${reason}.`;
}
