import { describe, expect, it } from "vitest";
import type { KnownCommand } from "../protocol";
import { chipWords } from "./chips";
import { commandLetters, commandsFor } from "./commands";
import { EMPTY, type Form } from "./form";

const MODES = [{ slug: "ask", name: "Ask" }];

describe("chips", () => {
  it.each([
    [{}, { place: "Project", versions: "1 version", model: "Default model", mode: "Default mode", more: "More" }],
    [{ where: "worktree" }, { place: "New worktree" }],
    [{ where: "worktree", branch: "agent/fix" }, { place: "agent/fix" }],
    [{ where: "worktree", origin: "existing-branch", existingBranch: "old" }, { place: "old" }],
    [{ where: "worktree", origin: "existing-worktree" }, { place: "Choose a worktree" }],
    [{ versions: 3 }, { place: "New worktrees", versions: "3 versions", model: "Default model" }],
    [{ versions: 2, model: "p/a" }, { model: "a" }],
    [{ versions: 2, model: "p/a", models: ["", "p/b", "", ""] }, { model: "2 models" }],
    [{ model: "p/vendor/a", mode: "ask" }, { model: "vendor/a", mode: "Ask" }],
    [{ label: " Roof ", mode: "own" }, { more: "Roof", mode: "own" }],
  ] as [Partial<Form>, object][])("show what is chosen: %j", (form, words) =>
    expect(chipWords({ ...EMPTY, ...form }, MODES)).toMatchObject(words),
  );
});

describe("slash commands", () => {
  it.each([
    ["/", 1, ""],
    ["/in", 3, "in"],
    ["/init now", 5, "init"],
    ["/init now", 9, null],
    ["say /init", 9, null],
    ["", 0, null],
  ] as const)("are completed at the beginning only: %j", (text, caret, letters) =>
    expect(commandLetters(text, caret)).toBe(letters),
  );

  it("that begin with the letters come first", () => {
    const known = ["review-diff", "diff", "init"].map((name) => ({ name }) as KnownCommand);
    expect(commandsFor(known, "diff").map((each) => each.name)).toEqual(["diff", "review-diff"]);
  });
});
