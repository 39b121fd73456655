/** `@` and some letters stand for a file; which is chosen from a list. */
export interface Mention {
  /** Where the `@` stands, and where the letters end. */
  start: number;
  end: number;
  letters: string;
}

/** The mention that is being written where the caret is, if one is. */
export function mentionAt(text: string, caret: number): Mention | null {
  const found = /(?:^|\s)@(\/?[^\s@]*)$/.exec(text.slice(0, caret));
  if (!found) return null;
  const letters = found[1]!;
  return { start: caret - letters.length - 1, end: caret, letters: letters.replace(/^\//, "") };
}

/** The text with the path in place of the letters, and where the caret goes. */
export function withPath(text: string, { start, end }: Mention, path: string, folder: boolean): { text: string; caret: number } {
  const name = path.replace(/^\//, "").replace(/[\\\s]/g, (character) => `\\${character}`);
  const mention = `@/${name}${folder && !name.endsWith("/") ? "/" : ""} `;
  const rest = text.slice(end).replace(/^ /, "");
  return { text: text.slice(0, start) + mention + rest, caret: start + mention.length };
}
