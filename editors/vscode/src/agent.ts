/** Starts `rookery acp` and speaks the Agent Client Protocol with it. */
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { parse } from "node:path";
import type { Editor } from "./editor.ts";
import { METHOD_NOT_FOUND, Peer, RpcError, type Wire } from "./rpc.ts";

const NOTED = 2000;
/** Where the program starts. In the workspace, a file could be taken for the program. */
export const OUTSIDE = parse(process.execPath).root;

export interface Program {
  command: string;
  args: string[];
  env?: NodeJS.ProcessEnv;
}

/** What the agent asks for while it works. */
export interface AgentListener {
  updated(sessionId: string, update: Wire): void;
  askPermission(params: Wire): Promise<Wire>;
  askForm(params: Wire): Promise<Wire>;
  ended(reason: string): void;
}

export class Agent {
  readonly ready: Promise<Wire>;
  private readonly peer: Peer;
  private readonly process;
  private stopped = false;
  private errors = "";

  constructor(
    program: Program,
    private readonly editor: Editor,
    private readonly listener: AgentListener,
  ) {
    const env = program.env ?? process.env;
    this.process = spawn(program.command, program.args, { cwd: OUTSIDE, env, stdio: "pipe" });
    this.process.stderr.setEncoding("utf8");
    this.process.stderr.on("data", (text: string) => {
      this.errors = (this.errors + text).slice(-NOTED);
    });
    this.process.on("error", (error) => this.end(`${program.command} did not start: ${error.message}. Set rookery.command to its path.`));
    this.process.on("close", (code) => this.end(`${program.command} ended with exit code ${code}.`));
    this.peer = new Peer(
      this.process.stdout,
      this.process.stdin,
      (method, params) => this.answer(method, params),
      (method, params) => {
        if (method === "session/update") listener.updated(params.sessionId, params.update);
      },
    );
    this.ready = this.initialize();
    this.ready.catch(() => {}); // callers see it when they await
  }

  /** Waits until the program has started, then asks it. */
  async request(method: string, params: Wire): Promise<any> {
    await this.ready;
    return this.peer.request(method, params);
  }

  notify(method: string, params: Wire): void {
    this.peer.notify(method, params);
  }

  /** Closing its input ends the program; its sessions are kept. */
  stop(): void {
    this.stopped = true;
    this.process.stdin.end();
  }

  private initialize(): Promise<Wire> {
    return this.peer.request("initialize", {
      protocolVersion: 1,
      clientInfo: { name: "rookery-vscode", title: "Rookery for VS Code" },
      clientCapabilities: {
        fs: { readTextFile: true, writeTextFile: true },
        session: { notices: {}, compaction: {} },
        elicitation: { form: {} },
      },
    });
  }

  private end(reason: string): void {
    if (this.stopped) return;
    this.stopped = true;
    this.listener.ended([reason, this.errors.trim()].filter(Boolean).join("\n"));
  }

  private answer(method: string, params: Wire): Promise<unknown> {
    switch (method) {
      case "session/request_permission":
        return this.listener.askPermission(params);
      case "elicitation/create":
        return this.listener.askForm(params);
      case "fs/read_text_file":
        return this.read(params);
      case "fs/write_text_file":
        return this.write(params.path, params.content);
      default:
        throw new RpcError(METHOD_NOT_FOUND, `There is no method ${method}.`);
    }
  }

  private async read(params: Wire): Promise<Wire> {
    const text = this.editor.document(params.path)?.text ?? (await readFile(params.path, "utf8"));
    if (params.line == null && params.limit == null) return { content: text };
    const start = Math.max(0, (params.line ?? 1) - 1);
    const lines = text.split("\n").slice(start, params.limit == null ? undefined : start + params.limit);
    return { content: lines.join("\n") };
  }

  /** Rookery writes to the disk first. VS Code then reloads what has no unsaved changes. */
  private async write(path: string, content: string): Promise<Wire> {
    const document = this.editor.document(path);
    if (document?.dirty) await this.editor.save(path, content);
    else if ((await onDisk(path)) !== content) await writeFile(path, content);
    return {};
  }
}

async function onDisk(path: string): Promise<string | null> {
  return readFile(path, "utf8").catch(() => null);
}
