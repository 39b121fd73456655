/** The list of changed files: labels, filter and navigation. */
import type { ChangedFile } from "../protocol";

export const KIND_WORDS: Readonly<Record<ChangedFile["kind"], { sign: string; word: string }>> = {
  added: { sign: "A", word: "added" },
  changed: { sign: "M", word: "changed" },
  removed: { sign: "D", word: "removed" },
  renamed: { sign: "R", word: "renamed" },
};

/** All words must occur in the path; a word such as `+added` or `+image` matches the kind of file. */
export function filtered(files: readonly ChangedFile[], words: string): readonly ChangedFile[] {
  const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
  return files.filter((file) => terms.every((word) => fits(file, word)));
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

/** Generated and very large files start collapsed. */
export function startsCollapsed(file: ChangedFile): boolean {
  return file.generated || file.too_large;
}

export function sums(files: readonly ChangedFile[]): { added: number; removed: number } {
  return {
    added: files.reduce((sum, file) => sum + file.added, 0),
    removed: files.reduce((sum, file) => sum + file.removed, 0),
  };
}

/** The file after or before `path`, or null at the ends of the list. */
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

/** The selected files that still exist. */
export function stillChanged(
  selected: ReadonlySet<string>,
  files: readonly ChangedFile[],
): ReadonlySet<string> {
  return new Set(files.map((file) => file.path).filter((path) => selected.has(path)));
}
