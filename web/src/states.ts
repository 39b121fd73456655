/** How each state of a session looks: text, colour and icon, so that none is needed alone. */
import type { SessionRow } from "./protocol";
import type { IconName, Tone } from "./ui";

export type State = SessionRow["state"];

export interface Appearance {
  words: string;
  tone: Tone;
  icon: IconName;
}

const APPEARANCES: Record<State, Appearance> = {
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

const UNKNOWN: Appearance = { words: "Unknown", tone: "usual", icon: "question" };

export function appearanceOf(state: State): Appearance {
  return APPEARANCES[state] ?? UNKNOWN;
}

/** The state in a word or two, with details such as the start-up step. */
export function wordsOf(row: Pick<SessionRow, "state" | "queued" | "step" | "unresponsive">): string {
  if (row.queued) return "Queued";
  if (row.unresponsive) return "Not responding";
  if (row.state === "creating" && row.step) return `Starting: ${row.step}`;
  return appearanceOf(row.state).words;
}

/** Its worktree was removed: the session can be read, but not continued. */
export function isWorktreeRemoved(row: Pick<SessionRow, "state" | "branch" | "worktree_id">): boolean {
  return row.branch !== "" && !row.worktree_id && row.state !== "creating";
}
