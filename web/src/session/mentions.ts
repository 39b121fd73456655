/** A file mention: `@` and some letters, which the user completes from a list. */
export interface Mention {
  /** Indexes of the `@` and of the end of the letters. */
  start: number;
  end: number;
  letters: string;
}

/** The mention at the caret, or null. */
export function mentionAt(text: string, caret: number): Mention | null {
  const found = /(?:^|\s)@(\/?[^\s@]*)$/.exec(text.slice(0, caret));
  if (!found) return null;
  const letters = found[1]!;
  return { start: caret - letters.length - 1, end: caret, letters: letters.replace(/^\//, "") };
}

/** The text with the mention completed, and the new position of the caret. */
export function withPath(text: string, { start, end }: Mention, path: string, folder: boolean): { text: string; caret: number } {
  const name = path.replace(/^\//, "").replace(/[\\\s]/g, (character) => `\\${character}`);
  const mention = `@/${name}${folder && !name.endsWith("/") ? "/" : ""} `;
  const rest = text.slice(end).replace(/^ /, "");
  return { text: text.slice(0, start) + mention + rest, caret: start + mention.length };
}
