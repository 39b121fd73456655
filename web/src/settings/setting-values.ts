/** Converts settings between JSON and what a control shows. */
import type { SettingRow } from "../protocol";
import { humanize } from "../wording";

export interface Group {
  readonly name: string;
  readonly title: string;
  readonly rows: readonly SettingRow[];
}

/** Groups for settings whose keys do not name one. */
const ABOUT: readonly (readonly [RegExp, string])[] = [
  [/^(provider|model|mode|reasoning_effort)$/, "model"],
  [/^approv|^commands\./, "approvals"],
  [/^max_|_limit$|_seconds$/, "limits"],
  [/^ui\./, "display"],
];

/** Groups the settings, keeping their order. */
export function grouped(rows: readonly SettingRow[]): readonly Group[] {
  const groups = new Map<string, SettingRow[]>();
  for (const row of rows) {
    const name = groupOf(row.key);
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups].map(([name, members]) => ({ name, title: titleOf(name), rows: members }));
}

function groupOf(key: string): string {
  const [prefix = ""] = key.split(".");
  const about = ABOUT.find(([mark]) => mark.test(key) && prefix !== "manager")?.[1];
  return about ?? (prefix === key ? "general" : prefix);
}

export function titleOf(name: string): string {
  return humanize(name.replaceAll(".", ": "));
}

/** Settings whose keys make unclear labels. */
const NAMES: Readonly<Record<string, string>> = {
  "manager.notify": "Browser notifications",
  "ui.notify": "Terminal notifications",
};

/** The label: the key without the group's prefix. */
export function labelOf(row: SettingRow): string {
  if (row.key in NAMES) return NAMES[row.key]!;
  const [prefix = "", ...rest] = row.key.split(".");
  return titleOf(rest.length > 0 && groupOf(row.key) === prefix ? rest.join(".") : row.key);
}

export function searchSettings(rows: readonly SettingRow[], words: string): readonly SettingRow[] {
  const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (row: SettingRow) => `${row.key} ${labelOf(row)} ${row.summary}`.toLowerCase();
  return rows.filter((row) => terms.every((word) => text(row).includes(word)));
}

/** The text in the control; a list has one line per entry. */
export function controlText(row: SettingRow): string {
  const value = parsed(row.value);
  if (value == null) return "";
  if (row.type === "list" && Array.isArray(value)) return value.map(entryText).join("\n");
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function isOn(row: SettingRow): boolean {
  return parsed(row.value) === true;
}

function entryText(entry: unknown): string {
  return typeof entry === "string" ? entry : JSON.stringify(entry);
}

export type ParsedInput = { readonly json: string } | { readonly problem: string };

const NO_VALUE: ParsedInput = { json: "null" };

/** The JSON for the parseInput text, or what is wrong with it. */
export function parseInput(row: SettingRow, text: string): ParsedInput {
  switch (row.type) {
    case "bool":
      return { json: text === "true" ? "true" : "false" };
    case "int":
      if (text.trim() === "") return NO_VALUE;
      return /^[+-]?\d+$/.test(text.trim())
        ? { json: String(Number(text)) }
        : { problem: "Enter a whole number." };
    case "float":
      if (text.trim() === "") return NO_VALUE;
      return Number.isFinite(Number(text))
        ? { json: String(Number(text)) }
        : { problem: "Enter a number." };
    case "str":
      return text === "" && emptyMeansNull(row) ? NO_VALUE : { json: JSON.stringify(text) };
    case "list":
      return { json: JSON.stringify(entries(row, text)) };
  }
}

/** Whether an empty text means no value. */
function emptyMeansNull(row: SettingRow): boolean {
  return row.choices.length > 0 || parsed(row.value) === null;
}

/** Lines are strings, unless the list already contains other types. */
function entries(row: SettingRow, text: string): unknown[] {
  const lines = text.split("\n").map((line) => line.trim());
  const written = lines.filter((line) => line !== "");
  const was = parsed(row.value);
  const holdsTexts = !Array.isArray(was) || was.every((entry) => typeof entry === "string");
  return holdsTexts ? written : written.map((line) => parsed(line) ?? line);
}

export function isSame(row: SettingRow, json: string): boolean {
  return JSON.stringify(parsed(row.value)) === JSON.stringify(parsed(json));
}

export function isDefault(row: SettingRow): boolean {
  return row.source === "default";
}

export function sourceWords(source: string): string {
  return source === "default" ? "Default" : `Set in ${source}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
