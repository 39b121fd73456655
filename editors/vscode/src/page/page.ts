/** The chat view. It shows what the extension sends, and sends back what the user does. */
import { approvalText, commandText, visibleLine, withoutAnsi } from "../../../../web/src/visible-text.ts";
import type { FromView, Status, ToView } from "../chat.ts";
import type { Row, SlashCommand } from "../conversation.ts";
import type { Piece } from "../proposals.ts";
import type { Question } from "../questions.ts";
import { element, markdown } from "./markdown.ts";

declare function acquireVsCodeApi(): { postMessage(message: FromView): void };

const api = acquireVsCodeApi();
const send = (message: FromView) => api.postMessage(message);
const rows = element("main");
const plan = element("details", "plan");
const questions = element("section", "questions");
const menu = element("div", "menu");
const chips = element("div", "chips");
const input = element("textarea") as HTMLTextAreaElement;
const pickers = element("div", "pickers");
const usage = element("span", "usage");
const stop = button("Stop", () => send({ kind: "stop" }), "plain");
const signIn = button("Sign in", () => send({ kind: "signIn" }), "plain");
let completions: SlashCommand[] = [];
let asked = "";

input.rows = 3;
input.placeholder = "What should I do? @problems, @selection, @open and @terminal add context.";
input.setAttribute("aria-label", "Message");
rows.setAttribute("aria-live", "polite");
input.addEventListener("keydown", onKey);
input.addEventListener("input", complete);
const bar = element("div", "bar");
bar.append(pickers, usage, signIn, stop, button("Send", submit));
const footer = element("footer");
footer.append(plan, questions, menu, chips, input, bar);
document.body.append(rows, footer);
window.addEventListener("message", (event: MessageEvent<ToView>) => take(event.data));
send({ kind: "ready" });

function take(message: ToView): void {
  if (message.kind === "rows") showRows(message.reset, message.rows);
  else if (message.kind === "status") showStatus(message.status);
  else input.focus();
}

function showRows(reset: boolean, changed: Row[]): void {
  const atEnd = rows.scrollHeight - rows.scrollTop - rows.clientHeight < 40;
  if (reset) rows.replaceChildren();
  for (const row of changed) {
    const old = document.getElementById(row.id);
    const made = rowElement(row, old instanceof HTMLDetailsElement && old.open);
    if (old) old.replaceWith(made);
    else rows.append(made);
  }
  if (atEnd || reset) rows.scrollTop = rows.scrollHeight;
}

function rowElement(row: Row, open: boolean): HTMLElement {
  const made = row.tool ? toolElement(row, open) : element("div", `row ${row.kind}`);
  made.id = row.id;
  if (row.kind === "agent" || row.kind === "thought") made.append(markdown(row.text));
  else if (!row.tool) made.append(element("p", "verbatim", row.text));
  return made;
}

function toolElement(row: Row, open: boolean): HTMLElement {
  const { status, pieces, output } = row.tool!;
  const made = element("details", `row tool ${status}`) as HTMLDetailsElement;
  made.open = open;
  const summary = element("summary");
  summary.append(element("span", "state", SIGNS[status] ?? "…"), verbatim("span", visibleLine(row.text)));
  made.append(summary, ...pieces.map(pieceElement));
  if (output) made.append(element("pre", "code", withoutAnsi(output)));
  return made;
}

const SIGNS: Record<string, string> = { completed: "✓", failed: "✗", in_progress: "▸", pending: "○" };

function pieceElement(piece: Piece): HTMLElement {
  const made = element("pre", "code diff");
  made.append(verbatim("span", visibleLine(piece.path), "path"));
  for (const [sign, line] of changedLines(piece)) {
    made.append(verbatim("span", `${sign} ${approvalText(line)}`, sign === "+" ? "added" : sign === "-" ? "removed" : ""));
  }
  return made;
}

/** Common lines at both ends are context; what is between them is removed and added. */
function changedLines({ oldText, newText }: Piece): [string, string][] {
  const before = lines(oldText ?? "");
  const after = lines(newText);
  let head = 0;
  while (head < before.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < Math.min(before.length, after.length) - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const signed = (sign: string, from: string[]) => from.map((line): [string, string] => [sign, line]);
  return [
    ...signed(" ", before.slice(0, head)),
    ...signed("-", before.slice(head, before.length - tail)),
    ...signed("+", after.slice(head, after.length - tail)),
    ...signed(" ", after.slice(after.length - tail)),
  ];
}

function lines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

function showStatus(status: Status): void {
  completions = status.completions;
  stop.hidden = !status.busy;
  signIn.hidden = !status.needsKey;
  usage.textContent = status.usage;
  pickers.replaceChildren(...status.options.map(picker));
  chips.replaceChildren(...status.attached.map(chip));
  showPlan(status);
  const ids = status.questions.map((each) => each.id).join(" ");
  if (ids === asked) return; // keeps the focus and the words in an open form
  asked = ids;
  questions.replaceChildren(...status.questions.map(questionElement));
}

function showPlan({ plan: entries }: Status): void {
  plan.hidden = entries.length === 0;
  const done = entries.filter((each) => each.status === "completed").length;
  const items = entries.map((each) => element("p", `entry ${each.status}`, `${SIGNS[each.status] ?? "○"} ${each.content}`));
  plan.replaceChildren(element("summary", "", `Plan: ${done} of ${entries.length} done`), ...items);
}

function picker(option: Status["options"][number]): HTMLElement {
  const made = element("select") as HTMLSelectElement;
  made.setAttribute("aria-label", option.name);
  for (const choice of option.choices) {
    const item = element("option", "", choice.name) as HTMLOptionElement;
    item.value = choice.value;
    item.title = choice.about;
    item.selected = choice.value === option.current;
    made.append(item);
  }
  made.title = `${option.name}: ${made.selectedOptions[0]?.title ?? ""}`;
  made.addEventListener("change", () => send({ kind: "option", id: option.id, value: made.value }));
  return made;
}

function chip(label: string, index: number): HTMLElement {
  const made = button(`${label} ×`, () => send({ kind: "detach", index }), "chip");
  made.title = "Remove";
  return made;
}

function questionElement(question: Question): HTMLElement {
  const made = element("div", "question");
  made.append(verbatim("p", visibleLine(question.title), "heading"));
  if (question.command) made.append(verbatim("pre", commandText(question.command), "code"));
  if (question.notes) made.append(verbatim("p", commandText(question.notes), "verbatim"));
  made.append(...question.pieces.map(pieceElement));
  const choices = element("div", "choices");
  for (const option of question.options) {
    const plain = option.kind === "allow_once" ? "" : "plain";
    choices.append(button(visibleLine(option.label), () => send({ kind: "choose", question: question.id, option: option.id }), plain));
  }
  if (question.proposals.length) choices.append(button("Show diff", () => send({ kind: "showDiff", question: question.id }), "plain"));
  made.append(choices);
  if (question.free) made.append(answerField(question));
  return made;
}

function answerField(question: Question): HTMLElement {
  const field = element("input") as HTMLInputElement;
  field.placeholder = "Other answer";
  field.setAttribute("aria-label", "Other answer");
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) send({ kind: "say", question: question.id, text: field.value });
  });
  return field;
}

function onKey(event: KeyboardEvent): void {
  if (event.isComposing) return;
  if (event.key === "Tab" && menu.firstElementChild) {
    event.preventDefault();
    (menu.firstElementChild as HTMLElement).click();
  } else if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    submit();
  }
}

function submit(): void {
  const text = input.value.trim();
  if (!text && !chips.firstElementChild) return;
  input.value = "";
  menu.replaceChildren();
  send({ kind: "prompt", text });
}

/** Offers what the word before the cursor begins: a mention, or a command at the start. */
function complete(): void {
  const before = input.value.slice(0, input.selectionStart);
  const word = /(?:^\/|(?:^|\s)@)\w*$/.exec(before)?.[0].trim();
  const fitting = word ? completions.filter((each) => each.name.startsWith(word)).slice(0, 6) : [];
  menu.replaceChildren(...fitting.map((each) => completion(each, before.length - word!.length, before.length)));
}

function completion(offered: SlashCommand, start: number, end: number): HTMLElement {
  const made = button("", () => {
    input.setRangeText(`${offered.name} `, start, end, "end");
    menu.replaceChildren();
    input.focus();
  }, "completion");
  made.append(element("b", "", offered.name), ` ${visibleLine(offered.about)}`);
  return made;
}

function button(label: string, act: () => void, className = ""): HTMLButtonElement {
  const made = element("button", className, label) as HTMLButtonElement;
  made.addEventListener("click", act);
  return made;
}

function verbatim(name: string, text: string, className = ""): HTMLElement {
  const made = element(name, className);
  made.textContent = text;
  return made;
}
