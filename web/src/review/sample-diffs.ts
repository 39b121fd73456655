/** Sample diffs and files for tests. */
import type { ChangedFile, DiffLine } from "../protocol";

/** A diff from `" a"`, `"-a"`, `"+a"` and `"@5"` (five omitted lines), with line numbers. */
export function diff(...texts: string[]): DiffLine[] {
  let old = 0;
  let now = 0;
  return texts.map((text): DiffLine => {
    const html = text.slice(1);
    switch (text[0]) {
      case "-":
        return { kind: "removed", old: ++old, new: null, html };
      case "+":
        return { kind: "added", old: null, new: ++now, html };
      case "@":
        old += Number(html);
        now += Number(html);
        return { kind: "gap", old: null, new: null, html: "" };
      default:
        return { kind: "same", old: ++old, new: ++now, html };
    }
  });
}

export function file(path: string, more: Partial<ChangedFile> = {}): ChangedFile {
  return {
    path,
    kind: "changed",
    old_path: "",
    added: 1,
    removed: 2,
    binary: false,
    image: false,
    generated: false,
    too_large: false,
    digest: `of ${path}`,
    ...more,
  };
}
