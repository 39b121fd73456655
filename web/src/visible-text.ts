/**
 * Makes untrusted text safe to read: invisible characters, control characters and bidirectional
 * controls are spelled out.
 */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g;
const INVISIBLE =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb]|\u{1d173}|[\u{1d174}-\u{1d17a}]|[\u{e0000}-\u{e0fff}]/gu;
const PRIVATE = /[\ue000-\uf8ff]|[\u{f0000}-\u{10ffff}]/gu;
/** Requests the emoji form of a character; after any other character it is invisible. */
const STRAY_SELECTOR = /(?<![\u00a9\u00ae\u203c-\u3299#*0-9]|[\u{1f000}-\u{1faff}])\ufe0f/gu;
const UNUSUAL_SPACES = /[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+/g;
const LONE_SURROGATE = /\p{Surrogate}/gu;
const SPACES = /[ \t]{4,}/g;
const TRAILING_SPACES = /[ \t]+$/gm;
const BLANK_LINES = /^(?:[ \t␍]*\n){3,}/gm;
const MAX_MARKED = 16;
const JOINED_EMOJI = /(?<=[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f]|[\u{1f300}-\u{1faff}])\u200d(?=[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff]|[\u{1f300}-\u{1faff}])/gu;
const PLACEHOLDER = "\ue0ff";
const ORDINARY = /^[\n\x20-\x7e]*$/;

/** For ordinary text. */
export function visibleText(text: string): string {
  if (ORDINARY.test(text)) return text;
  return text
    .replaceAll("\r\n", "\n")
    .replace(CONTROLS, (control) => controlPicture(control))
    .replaceAll(PLACEHOLDER, spellOut)
    .replace(JOINED_EMOJI, PLACEHOLDER)
    .replace(INVISIBLE, spellOut)
    .replace(STRAY_SELECTOR, spellOut)
    .replace(LONE_SURROGATE, spellOut)
    .replaceAll(PLACEHOLDER, "\u200d");
}

const COLOURS = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))/g;

/** Terminal output without escape sequences for colours and titles. */
export function withoutAnsi(output: string): string {
  return output.replace(COLOURS, "");
}

/**
 * For diffs that the user must approve: also spells out private-use characters, which fonts show
 * differently.
 */
export function approvalText(text: string): string {
  return visibleText(text).replace(PRIVATE, spellOut);
}

/**
 * For commands and paths that the user must approve: also marks unusual spaces, and long runs of
 * spaces or blank lines that push text out of sight.
 */
export function commandText(text: string): string {
  const lines = approvalText(text.replaceAll("\r\n", "␍\n")).replace(BLANK_LINES, countedLines);
  return lines
    .replace(UNUSUAL_SPACES, (spaces) => (spaces.length > 3 ? counted(spaces) : [...spaces].map(spellOut).join("")))
    .replace(SPACES, marked)
    .replace(TRAILING_SPACES, marked);
}

/** For names, titles and notes: one line only. */
export function visibleLine(text: string): string {
  return commandText(text.replaceAll("\n", "␊").replaceAll("\t", "␉"));
}

function controlPicture(control: string): string {
  const code = control.charCodeAt(0);
  return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
}

function spellOut(character: string): string {
  return `<U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}>`;
}

function marked(spaces: string): string {
  if (spaces.length > MAX_MARKED) return counted(spaces);
  return spaces.replaceAll(" ", "␣").replaceAll("\t", "␉");
}

function counted(spaces: string): string {
  return `<${spaces.length} blanks>`;
}

function countedLines(lines: string): string {
  return `<${lines.split("\n").length - 1} blank lines>\n`;
}
