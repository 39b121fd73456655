/** Binds the chat to VS Code: the view, the commands, the diff editor and the documents. */
import { readFileSync } from "node:fs";
import * as vscode from "vscode";
import { OUTSIDE } from "./agent.ts";
import { Chat, type FromView, type ToView } from "./chat.ts";
import { MOST_OUTPUT } from "./context.ts";
import type { Editor, OpenDocument, Problem, Selection, TerminalOutput } from "./editor.ts";
import type { Question } from "./questions.ts";
import { messageOf } from "./rpc.ts";

const VIEW = "rookery.chat";
const SCHEME = "rookery-proposal";
const SEVERITIES: Problem["severity"][] = ["error", "warning", "information", "hint"];
const RESTRICTED = "Rookery does not start in Restricted Mode. Trust this workspace to use it.";

export function activate(context: vscode.ExtensionContext): void {
  const editor = new OpenEditor();
  const binding = new Binding(context.extensionUri, editor);
  const commands: Record<string, () => unknown> = {
    openChat: () => vscode.commands.executeCommand(`${VIEW}.focus`),
    newSession: () => binding.chat.newSession(),
    sessions: () => binding.pickSession(),
    addSelection: () => binding.addSelection(),
    stop: () => binding.chat.stop(),
    signIn: () => binding.signIn(),
    acceptChange: () => binding.decide("allow_once"),
    rejectChange: () => binding.decide("reject_once"),
  };
  context.subscriptions.push(
    vscode.window.registerWebviewViewProvider(VIEW, binding, { webviewOptions: { retainContextWhenHidden: true } }),
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, binding),
    vscode.window.onDidStartTerminalShellExecution(({ execution }) => editor.follow(execution)),
    ...Object.entries(commands).map(([name, run]) => vscode.commands.registerCommand(`rookery.${name}`, run)),
    { dispose: () => binding.chat.end() },
  );
}

class Binding implements vscode.WebviewViewProvider, vscode.TextDocumentContentProvider {
  readonly chat: Chat;
  private view: vscode.WebviewView | null = null;
  private shown = new Map<string, Question>();

  constructor(
    private readonly home: vscode.Uri,
    editor: Editor,
  ) {
    this.chat = new Chat(program, editor, (message) => this.show(message));
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    const dist = vscode.Uri.joinPath(this.home, "dist");
    view.webview.options = { enableScripts: true, localResourceRoots: [dist] };
    view.webview.onDidReceiveMessage((message: FromView) => this.receive(message));
    view.onDidDispose(() => (this.view = null));
    const page = readFileSync(vscode.Uri.joinPath(this.home, "media", "page.html").fsPath, "utf8");
    const folder = view.webview.asWebviewUri(dist).toString();
    view.webview.html = page.replaceAll("{source}", view.webview.cspSource).replaceAll("{folder}", folder);
  }

  /** The proposed text of `rookery-proposal:/PATH?QUESTION/NUMBER/SIDE`. */
  provideTextDocumentContent(uri: vscode.Uri): string {
    const [id = "", index, side] = uri.query.split("/");
    const proposal = this.shown.get(id)?.proposals[Number(index)];
    return (side === "before" ? proposal?.before : proposal?.after) ?? "";
  }

  async decide(kind: "allow_once" | "reject_once"): Promise<void> {
    const id = proposalOf(vscode.window.tabGroups.activeTabGroup.activeTab);
    const question = id && this.chat.questions.find(id);
    if (!question) return void vscode.window.showInformationMessage("This question is closed. Nothing was approved.");
    if (kind === "allow_once" && !(await confirmed(question))) return;
    this.chat.questions.chooseKind(question.id, kind);
  }

  async pickSession(): Promise<void> {
    try {
      const known = (await this.chat.sessions()).map((each) => ({ label: each.title || each.id, description: each.updated, id: each.id }));
      const chosen = await vscode.window.showQuickPick(known, { placeHolder: "Select a session to open" });
      if (chosen) await this.chat.loadSession(chosen.id);
    } catch (error) {
      void vscode.window.showErrorMessage(messageOf(error));
    }
  }

  async addSelection(): Promise<void> {
    await vscode.commands.executeCommand(`${VIEW}.focus`);
    if (!this.chat.addSelection()) void vscode.window.showInformationMessage("No text is selected. Select some in an editor first.");
  }

  signIn(): void {
    const { command, args } = program();
    vscode.window.createTerminal({ name: "Rookery", cwd: OUTSIDE, shellPath: command, shellArgs: [...args, "--auth"] }).show();
  }

  private async receive(message: FromView): Promise<void> {
    if (await this.chat.take(message)) return;
    if (message.kind === "signIn") this.signIn();
    const question = message.kind === "showDiff" && this.chat.questions.find(message.question);
    if (question) await openDiffs(question);
  }

  private show(message: ToView): void {
    void this.view?.webview.postMessage(message);
    if (message.kind === "status") void this.showQuestions(message.status.questions);
  }

  /** Open the diffs of new questions, and close those of answered ones. */
  private async showQuestions(questions: Question[]): Promise<void> {
    const open = new Map(questions.map((each) => [each.id, each]));
    const added = questions.filter((each) => !this.shown.has(each.id));
    const gone = [...this.shown.keys()].filter((id) => !open.has(id));
    this.shown = open;
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const closed = tabs.filter((tab) => gone.includes(proposalOf(tab) ?? ""));
    if (closed.length) await vscode.window.tabGroups.close(closed);
    if (added.length) this.view?.show(true);
    for (const question of added) await openDiffs(question);
  }
}

/** The documents, tabs, selection, problems and terminals of VS Code. */
class OpenEditor implements Editor {
  private last: TerminalOutput | undefined;

  /** Keep the output of a command; a later command replaces it. */
  async follow(execution: vscode.TerminalShellExecution): Promise<void> {
    const kept = { command: execution.commandLine.value, text: "" };
    this.last = kept;
    for await (const text of execution.read()) kept.text = (kept.text + text).slice(-2 * MOST_OUTPUT);
  }

  terminal(): TerminalOutput | undefined {
    return this.last;
  }

  folders(): string[] {
    const folders = vscode.workspace.workspaceFolders ?? [];
    return folders.filter((each) => each.uri.scheme === "file").map((each) => each.uri.fsPath);
  }

  document(path: string): OpenDocument | undefined {
    const found = find(path);
    return found && { path, text: found.getText(), dirty: found.isDirty };
  }

  openFiles(): OpenDocument[] {
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const uris = tabs.map((tab) => tab.input).filter((input) => input instanceof vscode.TabInputText);
    const paths = new Set(uris.filter((each) => each.uri.scheme === "file").map((each) => each.uri.fsPath));
    return [...paths].map((path) => this.document(path) ?? { path, text: "", dirty: false });
  }

  selection(): Selection | undefined {
    const editor = vscode.window.activeTextEditor;
    if (!editor || editor.selection.isEmpty || editor.document.uri.scheme !== "file") return undefined;
    const { start, end } = editor.selection;
    const text = editor.document.getText(editor.selection);
    return { path: editor.document.uri.fsPath, text, lines: [start.line + 1, end.line + 1] };
  }

  problems(): Problem[] {
    return vscode.languages.getDiagnostics().flatMap(([uri, found]) =>
      found.map((each) => ({
        path: uri.fsPath,
        line: each.range.start.line + 1,
        severity: SEVERITIES[each.severity] ?? "hint",
        message: each.message,
        ...(each.source ? { source: each.source } : {}),
      })),
    );
  }

  async save(path: string, text: string): Promise<void> {
    const document = find(path);
    if (!document) throw new Error(`${path} is no longer open.`);
    if (document.getText() !== text) {
      const edit = new vscode.WorkspaceEdit();
      edit.replace(document.uri, new vscode.Range(0, 0, document.lineCount, 0), text);
      await vscode.workspace.applyEdit(edit);
    }
    if (!(await document.save())) throw new Error(`${path} could not be saved.`);
  }
}

function find(path: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((each) => each.uri.scheme === "file" && each.uri.fsPath === path);
}

function program() {
  if (!vscode.workspace.isTrusted) throw new Error(RESTRICTED);
  const settings = vscode.workspace.getConfiguration("rookery");
  return { command: settings.get("command", "rookery"), args: settings.get("arguments", ["acp"]) };
}

async function openDiffs(question: Question): Promise<void> {
  for (const [index, { path, before }] of question.proposals.entries()) {
    const side = (name: string) => vscode.Uri.file(path).with({ scheme: SCHEME, query: `${question.id}/${index}/${name}` });
    const old = before === null ? side("before") : vscode.Uri.file(path);
    const count = question.proposals.length > 1 ? ` (${index + 1} of ${question.proposals.length})` : "";
    const title = `${vscode.workspace.asRelativePath(path)}: proposed change${count}`;
    await vscode.commands.executeCommand("vscode.diff", old, side("after"), title, { preview: false, preserveFocus: true });
  }
}

/** The id of the question whose diff a tab shows. */
function proposalOf(tab: vscode.Tab | undefined): string | undefined {
  const { input } = tab ?? {};
  if (!(input instanceof vscode.TabInputTextDiff) || input.modified.scheme !== SCHEME) return undefined;
  return input.modified.query.split("/")[0];
}

/** An answer above one diff covers the whole call, so say what else it covers. */
async function confirmed(question: Question): Promise<boolean> {
  if (question.proposals.length === 1 && !question.notes) return true;
  const files = question.proposals.map((each) => vscode.workspace.asRelativePath(each.path)).join("\n");
  const detail = [question.notes, files].filter(Boolean).join("\n\n");
  return (await vscode.window.showWarningMessage("Accept this change?", { modal: true, detail }, "Accept")) === "Accept";
}
