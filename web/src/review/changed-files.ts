/** The list of changed files: what is shown of each, what fits a filter, which is the next. */
import type { ChangedFile } from "../protocol";

export const KIND_WORDS: Readonly<Record<ChangedFile["kind"], { sign: string; word: string }>> = {
  added: { sign: "A", word: "added" },
  changed: { sign: "M", word: "changed" },
  removed: { sign: "D", word: "removed" },
  renamed: { sign: "R", word: "renamed" },
};

/** All words must be in the path; a word like `+added` or `+image` asks for the kind instead. */
export function filtered(files: readonly ChangedFile[], words: string): readonly ChangedFile[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return files.filter((file) => wanted.every((word) => fits(file, word)));
}

function fits(file: ChangedFile, word: string): boolean {
  if (word.length > 1 && word.startsWith("+")) return traits(file).includes(word.slice(1));
  return `${file.path}\n${file.old_path}`.toLowerCase().includes(word);
}

function traits(file: ChangedFile): string[] {
  const found: string[] = [KIND_WORDS[file.kind].word];
  if (file.binary) found.push("binary");
  if (file.image) found.push("image");
  if (file.generated) found.push("generated");
  return found;
}

/** What nobody reads line by line is shown when somebody asks for it. */
export function startsFolded(file: ChangedFile): boolean {
  return file.generated || file.too_large;
}

export function sums(files: readonly ChangedFile[]): { added: number; removed: number } {
  return {
    added: files.reduce((sum, file) => sum + file.added, 0),
    removed: files.reduce((sum, file) => sum + file.removed, 0),
  };
}

/** The file after `path`, or before it; the first and the last are followed by none. */
export function neighbour(
  files: readonly ChangedFile[],
  path: string | null,
  step: 1 | -1,
): ChangedFile | null {
  const at = files.findIndex((file) => file.path === path);
  if (at < 0) return (step === 1 ? files[0] : files.at(-1)) ?? null;
  return files[at + step] ?? null;
}

export function folderAndName(path: string): { folder: string; name: string } {
  const cut = path.lastIndexOf("/") + 1;
  return { folder: path.slice(0, cut), name: path.slice(cut) };
}

/** Those of a selection that are still there to be selected. */
export function stillThere(
  selected: ReadonlySet<string>,
  files: readonly ChangedFile[],
): ReadonlySet<string> {
  return new Set(files.map((file) => file.path).filter((path) => selected.has(path)));
}
