/** Parses the texts of rows, which the engine and models write. */
import type { Row, Todo } from "../protocol";
import { humanize } from "../wording";

export type RowKind =
  | "hidden"
  | "user"
  | "answer"
  | "thought"
  | "call"
  | "output"
  | "request"
  | "trouble"
  | "result"
  | "question"
  | "summary"
  | "checkpoint"
  | "note";

const SAYS: Record<string, RowKind> = {
  text: "answer",
  reasoning: "thought",
  user_feedback: "user",
  user_feedback_diff: "user",
  completion_result: "result",
  command_output: "output",
  browser_action_result: "output",
  error: "trouble",
  diff_error: "trouble",
  condense_context_error: "trouble",
  condense_context: "summary",
  sliding_window_truncation: "summary",
  checkpoint_saved: "checkpoint",
  api_req_finished: "hidden",
  api_req_started: "request",
};
const ASKS: Record<string, RowKind> = {
  tool: "call",
  command: "call",
  use_mcp_server: "call",
  browser_action_launch: "call",
  resume_task: "note",
  followup: "question",
};

/** `opening`: the row is the prompt of the task. */
export function rowKindOf(row: Row, opening = false): RowKind {
  if (opening) return "user";
  if (row.type === "ask") return ASKS[row.ask ?? ""] ?? "hidden";
  const kind = SAYS[row.say ?? ""] ?? "note";
  return kind === "request" && requestOf(row.text).failure ? "trouble" : kind;
}

/** Whether a row is never visible. Does not apply to the prompt of a task. */
export function isInvisible(row: Row): boolean {
  return row.type === "ask" ? !(row.ask && row.ask in ASKS) : SAYS[row.say ?? ""] === "hidden";
}

export type Payload = Record<string, unknown> & { tool?: string };

/** The details of a tool call. */
export function payloadOf(row: Row): Payload {
  return row.ask === "command" ? {} : objectIn(row.text);
}

const EDITS = new Set(["editedExistingFile", "appliedDiff", "newFileCreated"]);

export function isEdit(payload: Payload): boolean {
  return EDITS.has(payload.tool ?? "") || "diffStats" in payload;
}

export interface DiffStats {
  added: number;
  removed: number;
}

export function statsOf(payload: Payload): DiffStats | null {
  const stats = payload.diffStats as Partial<DiffStats> | undefined;
  const { added, removed } = stats ?? {};
  return typeof added === "number" && typeof removed === "number" ? { added, removed } : null;
}

/** Why a call was not carried out as proposed; "" if it was, or is still open. */
export function outcomeOf(row: Row): NonNullable<Row["outcome"]> {
  return row.outcome ?? "";
}

const VERBS: Record<string, string> = {
  newFileCreated: "Create",
  write_to_file: "Write",
  editedExistingFile: "Edit",
  appliedDiff: "Edit",
  apply_diff: "Edit",
  readFile: "Read",
  read_file: "Read",
  execute_command: "Run",
  command: "Run a command",
};

/** The title of a call; while it streams, one derived from what has arrived. */
export function titleOf(row: Row, payload: Payload): string {
  if (row.title && !(row.title in VERBS)) return row.title;
  const name = row.title || text(payload.tool) || text(payload.toolName) || (row.ask === "command" ? "command" : "");
  return [name ? (VERBS[name] ?? humanize(name)) : "Tool call", text(payload.path) || text(payload.file_path) || text(payload.query)].filter(Boolean).join(" ");
}

export function todosOf(payload: Payload): Todo[] {
  const listed = Array.isArray(payload.todos) ? payload.todos : [];
  return listed.filter((each): each is Todo => typeof each?.content === "string");
}

export interface RequestInfo {
  model: string;
  tokensIn: number;
  tokensOut: number;
  cached: number;
  cost: number | null;
  ended: boolean;
  failure: string;
  cancelled: boolean;
}

export function requestOf(raw: string | null | undefined): RequestInfo {
  const info = objectIn(raw);
  const failed = info.cancelReason === "streaming_failed" || "streamingFailedMessage" in info;
  return {
    model: text(info.model),
    tokensIn: number(info.tokensIn),
    tokensOut: number(info.tokensOut),
    cached: number(info.cacheReads),
    cost: typeof info.cost === "number" ? info.cost : null,
    ended: "cost" in info || "cancelReason" in info,
    failure: failed ? text(info.streamingFailedMessage) || "The request failed." : "",
    cancelled: info.cancelReason === "user_cancelled",
  };
}

export interface Suggestion {
  answer: string;
  mode: string;
}

export interface Followup {
  question: string;
  suggestions: Suggestion[];
}

/** A question with suggested answers. Plain text is a question without suggestions. */
export function followupOf(raw: string | null | undefined): Followup {
  const parsed = objectIn(raw);
  if (typeof parsed.question !== "string") return { question: raw ?? "", suggestions: [] };
  const offered = Array.isArray(parsed.suggest) ? parsed.suggest : [];
  return { question: parsed.question, suggestions: offered.flatMap(suggestionOf) };
}

function suggestionOf(value: unknown): Suggestion[] {
  if (typeof value === "string") return [{ answer: value, mode: "" }];
  const { answer, mode } = (value ?? {}) as { answer?: unknown; mode?: unknown };
  return typeof answer === "string" ? [{ answer, mode: text(mode) }] : [];
}

export interface Delay {
  reason: string;
  seconds: string;
}

export function delayOf(raw: string | null | undefined): Delay {
  const [reason = "", timer = ""] = (raw ?? "").split("<retry_timer>");
  return { reason: reason.trim(), seconds: timer.split("</retry_timer>")[0]!.trim() };
}

/** The part of a text that is not rendered yet. */
export function restOf(row: Pick<Row, "text" | "html" | "html_upto">): string {
  return row.html?.length ? (row.text ?? "").slice(row.html_upto ?? 0) : (row.text ?? "");
}

export function objectIn(raw: string | null | undefined): Payload {
  try {
    const parsed: unknown = JSON.parse(raw ?? "");
    return parsed && typeof parsed === "object" && !Array.isArray(parsed) ? (parsed as Payload) : {};
  } catch {
    return {};
  }
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
