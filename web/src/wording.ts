/** Shortens texts of the manager and the engine for display. */

const HASH = /\b[0-9a-f]{40}\b/g;
const KEPT = /\brefs\/[\w-]+\/keep\//g;

/** Shortens commit hashes and drops the prefix of references to saved work. */
export function shortenReferences(words: string): string {
  return words.replace(HASH, (hash) => hash.slice(0, 10)).replace(KEPT, "");
}

/** A name as words: `new_task`, `newTask` and `NEW_TASK` become "New task". */
export function humanize(name: string): string {
  const words = name.replaceAll(/[_-]/g, " ").replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
