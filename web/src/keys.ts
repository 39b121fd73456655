/**
 * Keyboard shortcuts for when no field has the focus. They are single letters, so that they do not
 * clash with those of the browser, or two letters in a row.
 *
 * A user may type a word although no field has the focus. So a letter that changes something waits
 * for the next key, and letters typed in quick succession do nothing.
 */
import { useEffect, useRef } from "preact/hooks";

export type Keys = Record<string, () => void>;

const SECOND_KEY_WITHIN = 1_000;
/** A letter acts if no other follows within this many milliseconds. */
const ALONE_AFTER = 300;
/** Letters that follow each other faster than this are a word, and do nothing. */
const WORDS_END_AFTER = 1_000;
/** These only move the focus or the view, so they act immediately; so do pairs of letters. */
const IMMEDIATE = new Set(["i", "j", "k", "n", "p", "r", "/", "?"]);

export const SHORTCUTS: { about: string; keys: [string, string][] }[] = [
  {
    about: "Anywhere",
    keys: [
      ["?", "Show shortcuts"],
      ["c", "New session"],
      ["/", "Search sessions"],
      ["j", "Next session"],
      ["k", "Previous session"],
      ["g i", "Go to inbox"],
      ["g n", "Next session that needs you"],
      ["g p", "Next project"],
      ["g w", "Go to worktrees"],
      ["g g", "Go to governance"],
        ["g h", "Go to schedules"],
      ["g s", "Go to settings"],
      ["t", "Toggle theme"],
    ],
  },
  {
    about: "In the inbox",
    keys: [
      ["j", "Next row"],
      ["k", "Previous row"],
    ],
  },
  {
    about: "In a session",
    keys: [
      ["i", "Write a message"],
      ["a", "Approve"],
      ["a y", "Approve what always asks"],
      ["r", "Reject with a reason"],
      ["d", "Review changes"],
      ["h", "Checkpoints"],
      ["s", "Stop or resume"],
      ["e", "Rename"],
      ["y", "Archive"],
      ["End", "Jump to latest"],
    ],
  },
  {
    about: "In a review",
    keys: [
      ["n", "Next file"],
      ["p", "Previous file"],
      ["c", "Comment on a line"],
    ],
  },
  {
    about: "While typing",
    keys: [
      ["Enter", "Send"],
      ["Shift Enter", "New line"],
      ["@", "Mention a file"],
      ["Escape", "Leave the text field"],
    ],
  },
];

/**
 * Binds keys while the component is mounted. Components mounted later take precedence. A key
 * pressed before `since` does nothing: it was not meant for this component.
 */
export function useKeys(keys: Keys, since?: { current: number }): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const appeared = performance.now();
    const holder = { keys: () => current.current, since: () => since?.current ?? appeared };
    holders.push(holder);
    return () => {
      holders.splice(holders.indexOf(holder), 1);
    };
  }, []);
}

interface Holder {
  keys: () => Keys;
  since: () => number;
}

interface Found {
  keys: string;
  act: () => void;
}

const holders: Holder[] = [];
let first: { key: string; at: number } | null = null;
let waiting: { key: string; timer: ReturnType<typeof setTimeout> } | null = null;
let typedAt = -Infinity;

/** Handles each key press once, even if the key is held. */
export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.repeat) return ignoreHeld(event);
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return cancelWaiting();
    const found = findUnlessTyping(event.key, event.timeStamp);
    if (!found) return;
    event.preventDefault();
    if (found.keys.length > 1 || IMMEDIATE.has(found.keys)) found.act();
    else wait(found.keys, found.act);
  });
}

/** A held Enter would press one button after another. */
function ignoreHeld(event: KeyboardEvent): void {
  if (event.key === "Enter" && event.target instanceof HTMLButtonElement) event.preventDefault();
}

/** The action of a key, unless the key is part of a word typed outside a field. */
function findUnlessTyping(key: string, at: number): Found | undefined {
  const isLetter = key.length === 1;
  if (waiting?.key === key) return;
  if (waiting && isLetter) typedAt = at;
  cancelWaiting();
  const isWords = isLetter && at - typedAt < WORDS_END_AFTER;
  const found = isWords ? undefined : find(key, at);
  if (isWords || (isLetter && !found && !beginsPair(key))) typedAt = at;
  return found;
}

function wait(key: string, act: () => void): void {
  const done = () => {
    waiting = null;
    act();
  };
  waiting = { key, timer: setTimeout(done, ALONE_AFTER) };
}

function cancelWaiting(): void {
  clearTimeout(waiting?.timer);
  waiting = null;
}

/** The action of a key, alone or as the second of a pair. */
export function actFor(key: string, at: number): (() => void) | undefined {
  return find(key, at)?.act;
}

function find(key: string, at: number): Found | undefined {
  const both = first && at - first.at < SECOND_KEY_WITHIN ? bound(`${first.key} ${key}`, at) : undefined;
  first = both ? null : { key, at };
  return both ?? bound(key, at);
}

function bound(keys: string, at: number): Found | undefined {
  const acts = holders.map((holder) => (at >= holder.since() ? holder.keys()[keys] : undefined));
  const act = acts.findLast(Boolean);
  return act && { keys, act };
}

function beginsPair(key: string): boolean {
  return holders.some((holder) => Object.keys(holder.keys()).some((keys) => keys.startsWith(`${key} `)));
}

/** Whether a dialog is open or an inline form has unsaved text. */
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
