/** How the states of a session look: a word, a colour and a sign, so that none has to do alone. */
import type { SessionRow } from "./protocol";
import type { IconName, Tone } from "./ui";

export type State = SessionRow["state"];

export interface Look {
  words: string;
  tone: Tone;
  icon: IconName;
}

const LOOKS: Record<State, Look> = {
  idle: { words: "Idle", tone: "usual", icon: "clock" },
  creating: { words: "Starting", tone: "accent", icon: "play" },
  streaming: { words: "Working", tone: "accent", icon: "play" },
  waiting_approval: { words: "Needs approval", tone: "careful", icon: "hand" },
  waiting_input: { words: "Has a question", tone: "careful", icon: "question" },
  completed: { words: "Done", tone: "good", icon: "check" },
  paused: { words: "Paused", tone: "rest", icon: "pause" },
  error: { words: "Failed", tone: "bad", icon: "alert" },
  stopped: { words: "Stopped", tone: "usual", icon: "stop" },
};

const UNKNOWN: Look = { words: "Unknown", tone: "usual", icon: "question" };

export function lookOf(state: State): Look {
  return LOOKS[state] ?? UNKNOWN;
}

/** The state in a word or two, with what is special about it just now. */
export function wordsOf(row: Pick<SessionRow, "state" | "queued" | "step" | "unresponsive">): string {
  if (row.queued) return "Queued";
  if (row.unresponsive) return "Not responding";
  if (row.state === "creating" && row.step) return `Starting: ${row.step}`;
  return lookOf(row.state).words;
}

/** It had a worktree, which was removed: what it did there can be read, but it cannot go on there. */
export function isWithoutItsWorktree(row: Pick<SessionRow, "state" | "branch" | "worktree_id">): boolean {
  return row.branch !== "" && !row.worktree_id && row.state !== "creating";
}
