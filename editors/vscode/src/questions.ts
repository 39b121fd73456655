/** The agent's open questions. Each is answered once, with an option that it offered, or closed. */
import { piecesOf, type Piece, proposalsOf, type Proposal } from "./proposals.ts";
import type { Wire } from "./rpc.ts";

export interface Option {
  id: string;
  label: string;
  kind: string;
}

export interface Question {
  id: string;
  title: string;
  /** What a person should know before answering. */
  notes: string;
  command: string;
  pieces: Piece[];
  /** Whole files for the diff editor; empty if there are none, or if they cannot be built. */
  proposals: Proposal[];
  options: Option[];
  /** Whether other words than the options are an answer. */
  free: boolean;
}

interface Pending {
  question: Question;
  settle(option: string | null, words: string): void;
}

const CANCELLED = { outcome: { outcome: "cancelled" } };

export class Questions {
  private readonly pending = new Map<string, Pending>();
  private count = 0;

  constructor(
    private readonly textOf: (path: string) => string | null,
    private readonly changed: () => void,
  ) {}

  open(): Question[] {
    return [...this.pending.values()].map((each) => each.question);
  }

  find(id: string): Question | undefined {
    return this.pending.get(id)?.question;
  }

  askPermission(params: Wire): Promise<Wire> {
    const call: Wire = params.toolCall ?? {};
    const pieces = piecesOf(call);
    const options = (params.options as Wire[]).map((each) => ({
      id: String(each.optionId),
      label: String(each.name),
      kind: String(each.kind),
    }));
    const question = {
      title: String(call.title ?? ""),
      notes: notesOf(call),
      command: typeof call.rawInput?.command === "string" ? call.rawInput.command : "",
      pieces,
      proposals: proposalsOf(pieces, this.textOf) ?? [],
      options,
      free: false,
    };
    return this.ask(question, (option) =>
      option === null ? CANCELLED : { outcome: { outcome: "selected", optionId: option } },
    );
  }

  askForm(params: Wire): Promise<Wire> {
    const suggested: unknown = params.requestedSchema?.properties?.answer?.enum;
    const options = (Array.isArray(suggested) ? suggested : []).map((each) => {
      return { id: String(each), label: String(each), kind: "answer" };
    });
    const question = { title: String(params.message), notes: "", command: "", pieces: [], proposals: [], options, free: true };
    return this.ask(question, (option, words) => {
      if (option === null && !words) return { action: "cancel" };
      return { action: "accept", content: option === null ? { other: words } : { answer: option } };
    });
  }

  /** Whether the answer was taken: the question is open, and offered this option. */
  choose(id: string, option: string): boolean {
    const pending = this.pending.get(id);
    if (!pending?.question.options.some((each) => each.id === option)) return false;
    pending.settle(option, "");
    return true;
  }

  /** Answer by kind, as the buttons above a diff do. Only the narrowest options can be meant. */
  chooseKind(id: string, kind: "allow_once" | "reject_once"): boolean {
    const option = this.pending.get(id)?.question.options.find((each) => each.kind === kind);
    return option !== undefined && this.choose(id, option.id);
  }

  say(id: string, words: string): boolean {
    const pending = this.pending.get(id);
    if (!pending?.question.free || !words.trim()) return false;
    pending.settle(null, words);
    return true;
  }

  /** Close all questions. A closed question approves nothing. */
  close(): void {
    for (const each of [...this.pending.values()]) each.settle(null, "");
  }

  private ask(about: Omit<Question, "id">, reply: (option: string | null, words: string) => Wire): Promise<Wire> {
    const question = { ...about, id: `q${++this.count}` };
    return new Promise((resolve) => {
      const settle = (option: string | null, words: string) => {
        this.pending.delete(question.id);
        resolve(reply(option, words));
        this.changed();
      };
      this.pending.set(question.id, { question, settle });
      this.changed();
    });
  }
}

function notesOf(call: Wire): string {
  const blocks: Wire[] = Array.isArray(call.content) ? call.content : [];
  return blocks
    .map((each) => (each.type === "content" ? each.content?.text : undefined))
    .filter((text) => typeof text === "string")
    .join("\n");
}
