/** The words of a prompt as blocks of the protocol: mentions such as `@problems` become content. */
import { isAbsolute, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { withoutAnsi } from "../../../web/src/visible-text.ts";
import type { Editor, OpenDocument, Problem, Selection } from "./editor.ts";
import type { Wire } from "./rpc.ts";

export const MENTIONS = [
  { name: "@problems", about: "Errors and warnings of the workspace" },
  { name: "@selection", about: "The selected text" },
  { name: "@open", about: "The files in tabs" },
  { name: "@terminal", about: "The last command in a terminal, and its output" },
];

const MENTION = /(?<![\w@/.])@(problems|selection|open|terminal)\b(?![/.]\w)/g;
const MOST_PROBLEMS = 100;
const MOST_FILES = 20;
export const MOST_OUTPUT = 20_000;

export interface Attachment {
  label: string;
  block: Wire;
}

export function promptBlocks(text: string, attached: Attachment[], editor: Editor): Wire[] {
  const blocks: Wire[] = [];
  let end = 0;
  for (const found of text.matchAll(MENTION)) {
    blocks.push(words(text.slice(end, found.index)), ...mentioned(found[1]!, editor));
    end = found.index + found[0].length;
  }
  blocks.push(words(text.slice(end)), ...attached.map((each) => each.block));
  return blocks.filter((block) => block.type !== "text" || block.text !== "");
}

export function selectionAttachment(editor: Editor): Attachment | undefined {
  const selection = editor.selection();
  return selection && { label: place(selection, editor), block: selectionBlock(selection, editor) };
}

function mentioned(name: string, editor: Editor): Wire[] {
  switch (name) {
    case "problems":
      return [resource("vscode:problems", problemsText(editor))];
    case "selection": {
      const selection = editor.selection();
      return [selection ? selectionBlock(selection, editor) : words("(nothing is selected)")];
    }
    case "terminal":
      return [resource("vscode:terminal", terminalText(editor))];
    default:
      return openFiles(editor);
  }
}

function terminalText(editor: Editor): string {
  const last = editor.terminal();
  if (!last) return "No terminal command was recorded. This needs VS Code’s shell integration.";
  const text = withoutAnsi(last.text);
  const cut = text.length > MOST_OUTPUT ? "(the beginning is left out)\n" : "";
  return `$ ${last.command}\n${cut}${text.slice(-MOST_OUTPUT)}`;
}

function openFiles(editor: Editor): Wire[] {
  const files = editor.openFiles();
  if (files.length === 0) return [words("(no files are open)")];
  const left = files.length - MOST_FILES;
  const note = left > 0 ? [words(` (${left} more open files are left out) `)] : [];
  return [...files.slice(0, MOST_FILES).map((file) => fileBlock(file, editor)), ...note];
}

/** A file without unsaved text is linked: the agent reads it itself. */
function fileBlock(file: OpenDocument, editor: Editor): Wire {
  const uri = pathToFileURL(file.path).href;
  if (file.dirty) return resource(uri, file.text);
  return { type: "resource_link", uri, name: inWorkspace(file.path, editor) };
}

function selectionBlock(selection: Selection, editor: Editor): Wire {
  const [first, last] = selection.lines;
  const uri = `${pathToFileURL(selection.path).href}#L${first}-L${last}`;
  const where = `Lines ${first} to ${last} of ${inWorkspace(selection.path, editor)}:`;
  return resource(uri, `${where}\n${selection.text}`);
}

export function problemsText(editor: Editor): string {
  const problems = editor.problems().filter((each) => each.severity === "error" || each.severity === "warning");
  if (problems.length === 0) return "The editor reports no problems.";
  const ordered = problems.sort((a, b) => Number(b.severity === "error") - Number(a.severity === "error"));
  const lines = ordered.slice(0, MOST_PROBLEMS).map((each) => problemLine(each, editor));
  const left = problems.length - lines.length;
  return [...lines, ...(left > 0 ? [`(${left} more are left out)`] : [])].join("\n");
}

function problemLine(problem: Problem, editor: Editor): string {
  const source = problem.source ? ` [${problem.source}]` : "";
  const message = problem.message.replaceAll("\n", " ");
  return `${inWorkspace(problem.path, editor)}:${problem.line}: ${problem.severity}: ${message}${source}`;
}

function place(selection: Selection, editor: Editor): string {
  return `${inWorkspace(selection.path, editor)}:${selection.lines.join("-")}`;
}

function inWorkspace(path: string, editor: Editor): string {
  const inside = relative(editor.folders()[0] ?? "/", path);
  return inside.startsWith("..") || isAbsolute(inside) ? path : inside;
}

function words(text: string): Wire {
  return { type: "text", text };
}

function resource(uri: string, text: string): Wire {
  return { type: "resource", resource: { uri, text, mimeType: "text/plain" } };
}
