/**
 * Keys that work while nobody types. Single letters, so that the browser keeps its own; two of
 * them one after the other where there are many places to go.
 */
import { useEffect, useRef } from "preact/hooks";

export type Keys = Record<string, () => void>;

const SECOND_KEY_WITHIN = 1_000;

export const SHORTCUTS: { about: string; keys: [string, string][] }[] = [
  {
    about: "Anywhere",
    keys: [
      ["?", "Show these keys"],
      ["c", "New agent"],
      ["/", "Search sessions"],
      ["j", "Next session"],
      ["k", "Previous session"],
      ["g i", "Go to the inbox"],
      ["g n", "Go to the next session that needs you"],
      ["g w", "Go to the worktrees"],
      ["g g", "Go to governance"],
      ["g s", "Go to the settings"],
      ["t", "Dark or light"],
    ],
  },
  {
    about: "In a session",
    keys: [
      ["i", "Write a message"],
      ["a", "Approve what is asked"],
      ["r", "Reject, with a reason"],
      ["d", "Review the changes"],
      ["h", "Checkpoints"],
      ["s", "Stop the session, or resume it"],
      ["e", "Rename"],
      ["y", "Archive"],
      ["End", "Go to the newest row"],
    ],
  },
  {
    about: "In a review",
    keys: [
      ["n", "Next file"],
      ["p", "Previous file"],
      ["c", "Comment on the line, or on the first that changed"],
    ],
  },
  {
    about: "While you write",
    keys: [
      ["Enter", "Send"],
      ["Shift Enter", "New line"],
      ["@", "Name a file"],
      ["Escape", "Leave the field"],
    ],
  },
];

/** These keys, for as long as the component is there. Later components come first. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const holder = () => current.current;
    holders.push(holder);
    return () => {
      holders.splice(holders.indexOf(holder), 1);
    };
  }, []);
}

const holders: (() => Keys)[] = [];
let first: { key: string; at: number } | null = null;

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const act = actFor(event.key, event.timeStamp);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** What a key does, if anything. It may also be the second of two. */
export function actFor(key: string, at: number): (() => void) | undefined {
  const both = first && at - first.at < SECOND_KEY_WITHIN ? held(`${first.key} ${key}`) : undefined;
  first = both ? null : { key, at };
  return both ?? held(key);
}

function held(keys: string): (() => void) | undefined {
  return holders.map((holder) => holder()[keys]).findLast(Boolean);
}

/** Somebody is writing something in a form that stays until it is saved or left, or in a dialog. */
export function isEditing(): boolean {
  return document.querySelector("dialog[open], [data-editing]") !== null;
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (isEditing()) return true;
  if (!target?.matches) return false;
  if (target.matches("textarea, select, [contenteditable]")) return true;
  if (target.matches("input")) return !target.matches('[type="checkbox"], [type="radio"], [type="button"]');
  return event.key.length > 1 && target.matches("button, a, [role]");
}
