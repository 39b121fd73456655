/** Texts about worktrees, their states and plans. */
import { counted } from "../format";
import type { CheckCounts, Plan, WorktreeRow, WorktreeStats } from "../protocol";

export interface StateWords {
  readonly word: string;
  readonly sentence: string;
  /** Actions that can fix it. */
  readonly offers: readonly ("recreate" | "remove")[];
}

export const STATE_WORDS: Readonly<Record<WorktreeRow["state"], StateWords>> = {
  ready: { word: "Ready", sentence: "", offers: [] },
  missing: {
    word: "Folder missing",
    sentence:
      "The folder is missing, the branch still exists. Recreate it to continue its sessions.",
    offers: ["recreate", "remove"],
  },
  lost: {
    word: "Lost",
    sentence: "The folder and the branch are gone, so it cannot be recreated.",
    offers: ["remove"],
  },
  broken: {
    word: "Broken",
    sentence:
      "The folder is no longer a worktree of this repository. Nothing in it was changed.",
    offers: ["remove"],
  },
  unfinished: {
    word: "Unfinished",
    sentence: "Creating it was interrupted. No session has worked in it.",
    offers: ["recreate", "remove"],
  },
};

export function nameOf(worktree: Pick<WorktreeRow, "label" | "branch">): string {
  return worktree.label || worktree.branch;
}

/** What differs from the parent branch, or "No changes". */
export function statsWords(stats: WorktreeStats): string {
  const parts: string[] = [];
  if (stats.files > 0) parts.push(`${counted(stats.files, "file")} changed`);
  if (stats.ahead > 0) parts.push(`${counted(stats.ahead, "commit")} ahead`);
  if (stats.behind > 0) parts.push(`${stats.behind} behind`);
  if (stats.uncommitted > 0) parts.push(`${stats.uncommitted} uncommitted`);
  return parts.join(", ") || "No changes";
}

/** Such as "2 checks failed, 1 pending"; empty without checks. */
export function checksWords({ passed, failed, pending }: CheckCounts): string {
  const bad = failed > 0 ? [`${counted(failed, "check")} failed`] : [];
  const open = pending > 0 ? [`${pending} pending`] : [];
  if (bad.length || open.length) return [...bad, ...open].join(", ");
  return passed > 0 ? `${counted(passed, "check")} passed` : "";
}

/** The file of a conflict, which has the form `path: reason`. */
export function conflictPath(conflict: string, paths: readonly string[]): string | null {
  const fitting = paths.filter((path) => conflict === path || conflict.startsWith(`${path}:`));
  // one path can be a prefix of another: take the longest
  return fitting.sort((one, other) => other.length - one.length)[0] ?? null;
}

/**
 * The files of a plan without its conflicts; null if that is none or all of them. If the plan lists
 * no files, uses `known`.
 */
export function withoutConflicts(plan: Plan, known: readonly string[]): readonly string[] | null {
  const paths = plan.paths.length > plan.conflicts.length ? plan.paths : known;
  const conflicting = plan.conflicts.map((conflict) => conflictPath(conflict, paths));
  if (conflicting.length === 0 || conflicting.includes(null)) return null;
  const rest = paths.filter((path) => !conflicting.includes(path));
  return rest.length > 0 ? rest : null;
}

export function applyHeading(plan: Plan): string {
  if (plan.conflicts.length > 0) {
    return `${counted(plan.conflicts.length, "conflict")}: nothing was changed`;
  }
  if (plan.paths.length === 0) return "Nothing to apply";
  return `${counted(plan.paths.length, "file")} will be written to the project`;
}

export function canApply(plan: Plan): boolean {
  return plan.conflicts.length === 0 && plan.paths.length > 0;
}

export function removalVerb(worktree: Pick<WorktreeRow, "imported">): string {
  return worktree.imported ? "Remove from list" : "Remove";
}

/** The short name of saved work: its reference without the prefix. */
export function keptName(ref: string): string {
  return ref.replace(/^refs\/[^/]+\/keep\//, "");
}
