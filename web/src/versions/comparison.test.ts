import { describe, expect, it } from "vitest";

import type { ChangedFile, Version } from "../protocol";
import { beginning, filesOf, lowest, otherVersions, whyNotKept, withoutMarkdown } from "./comparison";

const NONE = { files: 1, added: 0, removed: 0, ahead: 0, behind: 0, uncommitted: 0 };
const version = (id: string, more: Partial<Version> = {}): Version => ({
  session_id: id,
  worktree_id: `w-${id}`,
  name: id,
  model: "m",
  state: "completed",
  stats: NONE,
  note: "",
  cost: 1,
  tokens: 10,
  seconds: 5,
  result: "",
  ...more,
});

describe("the lowest value", () => {
  it("is that of a completed version", () => {
    const all = [version("a", { cost: 2 }), version("b"), version("c", { cost: 0.1, state: "error" })];
    expect([...lowest(all, "cost")]).toEqual(["b"]);
  });

  it("is not marked if all are equal, there is only one version, or nothing was measured", () => {
    expect(lowest([version("a"), version("b")], "cost").size).toBe(0);
    expect(lowest([version("a")], "cost").size).toBe(0);
    expect(lowest([version("a", { cost: 0 }), version("b", { cost: 0 })], "cost").size).toBe(0);
    expect(lowest([], "cost").size).toBe(0);
  });
});

describe("keeping a version", () => {
  it.each([
    [version("a"), null],
    [version("a", { state: "stopped" }), null],
    [version("a", { state: "streaming" }), "Still working."],
    [version("a", { worktree_id: "" }), "The worktree was removed."],
    [version("a", { stats: { ...NONE, files: 0 } }), "No changes."],
  ])("%#", (one, why) => {
    expect(whyNotKept(one)).toBe(why);
  });

  it("offers to remove the others that have their own worktrees", () => {
    const winner = version("a");
    const all = [winner, version("b"), version("c", { worktree_id: "" }), version("d", { worktree_id: "w-a" })];
    expect(otherVersions(all, winner).map((each) => each.session_id)).toEqual(["b"]);
  });
});

it("lists each changed file once, the most often changed first", () => {
  const changed = (...paths: string[]) => paths.map((path) => ({ path }) as ChangedFile);
  const files = new Map([
    ["a", changed("z.py", "b.py")],
    ["b", changed("z.py", "a.py")],
    ["gone", changed("x.py")],
  ]);
  expect(filesOf([version("a"), version("b"), version("c")], files)).toEqual([
    { path: "z.py", by: 2 },
    { path: "a.py", by: 1 },
    { path: "b.py", by: 1 },
  ]);
});

it("shows the start of a long result", () => {
  expect(beginning(" short ")).toBe("short");
  expect(beginning("word ".repeat(100), 12)).toBe("word word wo…");
});

it("shows a result without Markdown syntax", () => {
  const markdown = "## Done\n\nAdded `mul` in **src/mul.py**:\n\n- a [test](t.md)\n\n```py\na * b ** c\n```";
  expect(withoutMarkdown(markdown)).toBe("Done\n\nAdded mul in src/mul.py:\n\n• a test\n\na * b ** c\n");
});
