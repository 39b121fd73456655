/** Folds the updates of a session into the rows, the plan and the options that the chat shows. */
import { piecesOf, type Piece } from "./proposals.ts";
import type { Wire } from "./rpc.ts";

export type RowKind = "user" | "agent" | "thought" | "notice" | "error" | "tool";

export interface Row {
  id: string;
  kind: RowKind;
  text: string;
  tool?: ToolRow;
}

export interface ToolRow {
  kind: string;
  status: string;
  pieces: Piece[];
  output: string;
}

export interface PlanEntry {
  content: string;
  status: string;
}

export interface ConfigOption {
  id: string;
  name: string;
  current: string;
  choices: { value: string; name: string; about: string }[];
}

export interface SlashCommand {
  name: string;
  about: string;
}

const MESSAGES: Record<string, RowKind> = {
  user_message_chunk: "user",
  agent_message_chunk: "agent",
  agent_thought_chunk: "thought",
};

export class Conversation {
  readonly rows = new Map<string, Row>();
  plan: PlanEntry[] = [];
  options: ConfigOption[] = [];
  commands: SlashCommand[] = [];
  title = "";
  usage = "";
  private readonly calls = new Map<string, Wire>();
  private count = 0;
  private last: { row: Row; messageId: unknown } | null = null;

  /** Take an update; returns the row that changed, if one did. */
  update(update: Wire): Row | undefined {
    const kind = MESSAGES[update.sessionUpdate];
    if (kind) return this.chunk(kind, update);
    switch (update.sessionUpdate) {
      case "tool_call":
      case "tool_call_update":
        return this.call(update);
      case "notice":
        return this.add("notice", String(update.title));
      case "compaction_update":
        return this.compaction(update);
      case "plan":
        this.plan = asList(update.entries).map((each) => ({ content: String(each.content), status: String(each.status) }));
        return undefined;
      case "config_option_update":
        this.setOptions(update.configOptions);
        return undefined;
      case "available_commands_update":
        this.commands = asList(update.availableCommands).map((each) => ({ name: `/${each.name}`, about: String(each.description) }));
        return undefined;
      case "session_info_update":
        this.title = String(update.title ?? this.title);
        return undefined;
      case "usage_update":
        this.usage = usageText(update);
        return undefined;
      default:
        return undefined;
    }
  }

  add(kind: RowKind, text: string): Row {
    this.last = null;
    return this.keep({ id: `r${++this.count}`, kind, text });
  }

  setOptions(options: unknown): void {
    this.options = asList(options).map((each) => ({
      id: String(each.id),
      name: String(each.name),
      current: String(each.currentValue),
      choices: asList(each.options).map((choice) => ({
        value: String(choice.value),
        name: String(choice.name),
        about: String(choice.description ?? ""),
      })),
    }));
  }

  private keep(row: Row): Row {
    this.rows.set(row.id, row);
    return row;
  }

  /** Pieces of one message have the same id, or follow each other without one. */
  private chunk(kind: RowKind, update: Wire): Row | undefined {
    const text = update.content?.type === "text" ? String(update.content.text) : "[image]";
    const { last } = this;
    if (last?.row.kind === kind && last.messageId === update.messageId && kind !== "user") {
      last.row.text += text;
      return last.row;
    }
    if (!text.trim()) return undefined;
    const row = this.add(kind, text);
    this.last = { row, messageId: update.messageId };
    return row;
  }

  private call(update: Wire): Row {
    const id = `tool-${update.toolCallId}`;
    const call = { ...this.calls.get(id), ...update };
    this.calls.set(id, call);
    this.last = null;
    const tool = { kind: String(call.kind), status: String(call.status), pieces: piecesOf(call), output: outputOf(call) };
    return this.keep({ id, kind: "tool", text: String(call.title ?? ""), tool });
  }

  private compaction(update: Wire): Row | undefined {
    if (update.status === "completed") return this.add("notice", "The conversation was condensed.");
    return update.status === "in_progress" ? this.add("notice", "Condensing the conversation.") : undefined;
  }
}

/** The text of a call's result. Output of programs comes fenced, because other editors show Markdown. */
function outputOf(call: Wire): string {
  const texts = asList(call.content).filter((each) => each.type === "content" && each.content?.type === "text");
  return texts.map((each) => unfenced(String(each.content.text))).join("\n");
}

export function unfenced(text: string): string {
  const found = /^(`{3,})[^\n`]*\n([\s\S]*?)\n?\1\s*$/.exec(text);
  return found ? found[2]! : text;
}

function usageText(update: Wire): string {
  const share = `${Math.round((100 * update.used) / update.size)}% of context`;
  return update.cost ? `${share}, $${Number(update.cost.amount).toFixed(2)}` : share;
}

function asList(value: unknown): Wire[] {
  return Array.isArray(value) ? value : [];
}
