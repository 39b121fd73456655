/** An editor without windows: documents, a selection and problems that a test sets. */
import { writeFile } from "node:fs/promises";
import type { Editor, OpenDocument, Problem, Selection, TerminalOutput } from "../src/editor.ts";

export class TestEditor implements Editor {
  files: OpenDocument[] = [];
  selected: Selection | undefined;
  found: Problem[] = [];
  ran: TerminalOutput | undefined;

  constructor(private readonly folder: string) {}

  folders(): string[] {
    return [this.folder];
  }

  document(path: string): OpenDocument | undefined {
    return this.files.find((each) => each.path === path);
  }

  openFiles(): OpenDocument[] {
    return this.files;
  }

  selection(): Selection | undefined {
    return this.selected;
  }

  problems(): Problem[] {
    return this.found;
  }

  terminal(): TerminalOutput | undefined {
    return this.ran;
  }

  async save(path: string, text: string): Promise<void> {
    Object.assign(this.document(path)!, { text, dirty: false });
    await writeFile(path, text);
  }
}
