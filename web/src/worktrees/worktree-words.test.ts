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

describe("states", () => {
  it("that are not ready say what is wrong and what can be done", () => {
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
  ])("%j", (said, heading, can) => {
    expect(applyHeading(said)).toBe(heading);
    expect(canApply(said)).toBe(can);
  });

  it("can leave its conflicts out", () => {
    const said = plan({ paths: ["a", "a:b", "c"], conflicts: ["a:b: changed here too"] });
    expect(withoutConflicts(said, [])).toEqual(["a", "c"]);
  });

  it("can do so too if it does not name its files, but they are known", () => {
    const said = plan({ conflicts: ["a: x"] });
    expect(withoutConflicts(said, ["a", "b"])).toEqual(["b"]);
    expect(withoutConflicts(said, [])).toBeNull();
  });

  it.each([
    ["has none", plan({ paths: ["a"] })],
    ["has nothing else", plan({ paths: ["a"], conflicts: ["a: x"] })],
    ["does not name the file", plan({ paths: ["a", "b"], conflicts: ["the disk is full"] })],
  ])("cannot if it %s", (_, said) => {
    expect(withoutConflicts(said, [])).toBeNull();
  });

  it("names a file whole, not one that begins alike", () => {
    expect(conflictPath("ab: x", ["a", "ab"])).toBe("ab");
    expect(conflictPath("ab", ["a"])).toBeNull();
  });
});

it("names a worktree by its label, else its branch", () => {
  expect(nameOf({ label: "", branch: "b" })).toBe("b");
  expect(nameOf({ label: "l", branch: "b" })).toBe("l");
});

it("only unlists what was imported, removes what was made", () => {
  expect(removalVerb({ imported: true })).toBe("Remove from list");
  expect(removalVerb({ imported: false })).toBe("Remove");
});

it("shortens the reference of kept work", () => {
  expect(keptName("refs/rookery/keep/fix-1/2026")).toBe("fix-1/2026");
  expect(keptName("refs/heads/x")).toBe("refs/heads/x");
});
