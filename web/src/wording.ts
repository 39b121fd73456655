/** What the manager and the engine say, for people: without what only a program needs. */

const HASH = /\b[0-9a-f]{40}\b/g;
const KEPT = /\brefs\/[\w-]+\/keep\//g;

/** Nobody reads a hash to its end, or where a reference is kept. */
export function shortened(words: string): string {
  return words.replace(HASH, (hash) => hash.slice(0, 10)).replace(KEPT, "");
}
