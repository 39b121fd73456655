/** What a schedule does, in words, and the request that the form makes. */
import { money } from "../format";
import type { Requests, ScheduleRow } from "../protocol";

export type Kind = "cron" | "at" | "webhook";
export type Approvals = "settings" | "auto" | "ask";

export interface ScheduleForm {
  readonly prompt: string;
  readonly name: string;
  readonly kind: Kind;
  readonly cron: string;
  /** As a date field holds it, in the time zone of the browser. */
  readonly at: string;
  readonly where: "local" | "worktree";
  readonly model: string;
  readonly mode: string;
  readonly approvals: Approvals;
  readonly budget: string;
}

export const EMPTY_FORM: ScheduleForm = {
  prompt: "",
  name: "",
  kind: "cron",
  cron: "0 9 * * 1-5",
  at: "",
  where: "worktree",
  model: "",
  mode: "",
  approvals: "settings",
  budget: "",
};

export const PRESETS: readonly { readonly words: string; readonly cron: string }[] = [
  { words: "Every hour", cron: "0 * * * *" },
  { words: "Every day", cron: "0 9 * * *" },
  { words: "Weekdays", cron: "0 9 * * 1-5" },
  { words: "Every week", cron: "0 9 * * 1" },
];

/** What must be corrected before the schedule can be added, or null. */
export function formProblem(form: ScheduleForm): string | null {
  if (!form.prompt.trim()) return "Write a prompt.";
  if (form.kind === "cron" && !form.cron.trim()) return "Give a cron line.";
  if (form.kind === "at" && Number.isNaN(Date.parse(form.at))) return "Choose a time.";
  if (form.budget === "") return null;
  const budget = Number(form.budget);
  return Number.isFinite(budget) && budget > 0 ? null : "Give a budget above 0, or leave it empty for no limit.";
}

export function addRequest(form: ScheduleForm): Requests["add_schedule"] {
  return {
    prompt: form.prompt,
    name: form.name.trim(),
    cron: form.kind === "cron" ? form.cron.trim() : "",
    at: form.kind === "at" ? instantOf(form.at) : "",
    webhook: form.kind === "webhook",
    where: form.where,
    model: form.model,
    mode: form.mode,
    auto_approve: form.approvals === "settings" ? null : form.approvals === "auto",
    budget: Number(form.budget || 0),
  };
}

export function formOf(row: ScheduleRow): ScheduleForm {
  const { prompt, name, cron = "", where = "worktree", model = "", mode = "", budget } = row;
  const kind = row.webhook ? "webhook" : row.at ? "at" : "cron";
  const given = { prompt, name, kind, cron, at: fieldOf(row.at), where, model, mode } as const;
  return { ...EMPTY_FORM, ...given, budget: budget ? String(budget) : "" };
}

/** The manager may be in another time zone, so the offset is part of it. */
export function instantOf(field: string): string {
  return new Date(field).toISOString();
}

function fieldOf(ts: number | null | undefined): string {
  if (!ts) return "";
  const local = new Date(ts - new Date(ts).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

export function budgetOf(row: ScheduleRow): string {
  return row.budget ? `${money(row.used ?? 0)} of ${money(row.budget)} used today` : "";
}

/** A command that calls a webhook. */
export function curlOf(url: string, token: string): string {
  return [
    `curl ${url} \\`,
    `  -H 'Authorization: Bearer ${token}' \\`,
    `  --json '{"text": "what happened", "id": "a number of its own"}'`,
  ].join("\n");
}
