/** What the extension needs from VS Code. `extension.ts` has the real one. */
export interface OpenDocument {
  path: string;
  text: string;
  dirty: boolean;
}

export interface Selection {
  path: string;
  text: string;
  /** The first and the last line, counted from 1. */
  lines: [number, number];
}

export interface Problem {
  path: string;
  line: number;
  severity: "error" | "warning" | "information" | "hint";
  message: string;
  source?: string;
}

/** The last command that was run in a terminal. */
export interface TerminalOutput {
  command: string;
  /** As the terminal got it, with escape sequences. */
  text: string;
}

export interface Editor {
  /** The folders of the workspace. The agent works in the first one. */
  folders(): string[];
  /** A document that is open, with its unsaved text. */
  document(path: string): OpenDocument | undefined;
  /** Files in tabs. */
  openFiles(): OpenDocument[];
  selection(): Selection | undefined;
  problems(): Problem[];
  terminal(): TerminalOutput | undefined;
  /** Give an open document this text, and save it. */
  save(path: string, text: string): Promise<void>;
}
