import { checksWords } from "./worktree-words";
import { describe, expect, it } from "vitest";

import type { Plan, WorktreeStats } from "../protocol";
import {
  STATE_WORDS,
  applyHeading,
  canApply,
  conflictPath,
  keptName,
  nameOf,
  removalVerb,
  statsWords,
  withoutConflicts,
} from "./worktree-words";

const NONE: WorktreeStats = { files: 0, added: 0, removed: 0, ahead: 0, behind: 0, uncommitted: 0 };
const plan = (more: Partial<Plan>): Plan => ({ text: "", paths: [], conflicts: [], token: "", ...more });

describe("worktree states", () => {
  it("other than ready say what is wrong and what to do", () => {
    for (const [state, words] of Object.entries(STATE_WORDS)) {
      expect(words.word).not.toBe("");
      if (state === "ready") continue;
      expect(words.sentence).toMatch(/\.$/);
      expect(words.offers).toContain("remove");
    }
  });

  it("offer to recreate only what can be recreated", () => {
    const offering = Object.entries(STATE_WORDS).filter(([, words]) => words.offers.includes("recreate"));
    expect(offering.map(([state]) => state)).toEqual(["missing", "unfinished"]);
  });
});

describe("statistics", () => {
  it.each([
    [{}, "No changes"],
    [{ files: 1 }, "1 file changed"],
    [
      { files: 12, ahead: 1, behind: 2, uncommitted: 3 },
      "12 files changed, 1 commit ahead, 2 behind, 3 uncommitted",
    ],
  ])("%j", (some, words) => {
    expect(statsWords({ ...NONE, ...some })).toBe(words);
  });
});

describe("a plan to apply", () => {
  it.each([
    [plan({}), "Nothing to apply", false],
    [plan({ paths: ["a"] }), "1 file will be written to the project", true],
    [plan({ paths: ["a", "b"], conflicts: ["a: changed here too"] }), "1 conflict: nothing was changed", false],
  ])("%j", (tested, heading, can) => {
    expect(applyHeading(tested)).toBe(heading);
    expect(canApply(tested)).toBe(can);
  });

  it("can skip its conflicts", () => {
    const tested = plan({ paths: ["a", "a:b", "c"], conflicts: ["a:b: changed here too"] });
    expect(withoutConflicts(tested, [])).toEqual(["a", "c"]);
  });

  it("can skip them too if it lists no files, but they are known", () => {
    const tested = plan({ conflicts: ["a: x"] });
    expect(withoutConflicts(tested, ["a", "b"])).toEqual(["b"]);
    expect(withoutConflicts(tested, [])).toBeNull();
  });

  it.each([
    ["has no conflicts", plan({ paths: ["a"] })],
    ["has only conflicts", plan({ paths: ["a"], conflicts: ["a: x"] })],
    ["does not name the file in conflict", plan({ paths: ["a", "b"], conflicts: ["the disk is full"] })],
  ])("cannot skip them if it %s", (_, tested) => {
    expect(withoutConflicts(tested, [])).toBeNull();
  });

  it("matches whole file names, not prefixes", () => {
    expect(conflictPath("ab: x", ["a", "ab"])).toBe("ab");
    expect(conflictPath("ab", ["a"])).toBeNull();
  });
});

it("a worktree is named by its label, or else its branch", () => {
  expect(nameOf({ label: "", branch: "b" })).toBe("b");
  expect(nameOf({ label: "l", branch: "b" })).toBe("l");
});

it("an imported worktree is only removed from the list", () => {
  expect(removalVerb({ imported: true })).toBe("Remove from list");
  expect(removalVerb({ imported: false })).toBe("Remove");
});

it("the reference of saved work is shortenReferences", () => {
  expect(keptName("refs/rookery/keep/fix-1/2026")).toBe("fix-1/2026");
  expect(keptName("refs/heads/x")).toBe("refs/heads/x");
});

it.each([
  [{ passed: 0, failed: 0, pending: 0 }, ""],
  [{ passed: 2, failed: 0, pending: 0 }, "2 checks passed"],
  [{ passed: 2, failed: 1, pending: 3 }, "1 check failed, 3 pending"],
  [{ passed: 2, failed: 0, pending: 1 }, "1 pending"],
])("checks %j are %s", (checks, words) => {
  expect(checksWords(checks)).toBe(words);
});
