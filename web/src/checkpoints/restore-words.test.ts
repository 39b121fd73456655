import { describe, expect, it } from "vitest";

import type { RestoreRehearsal } from "../protocol";
import { type Choice, buttonWords, changesAnything, consequences, summary } from "./restore-words";

const NOTHING: RestoreRehearsal = { written: [], removed: [], kept: [], unsaved: [], problem: "" };
const SOME: RestoreRehearsal = { ...NOTHING, written: ["a", "b"], removed: ["c"], kept: ["d"] };
const FILES: Choice = { files: true, conversation: false, overwrite: false };
const BOTH: Choice = { ...FILES, conversation: true };
const TALK: Choice = { files: false, conversation: true, overwrite: false };

describe("what going back would do", () => {
  it.each([
    [SOME, FILES, "2 files are written, 1 file is removed, 1 file is kept, and the conversation stays as it is."],
    [SOME, BOTH, "2 files are written, 1 file is removed, 1 file is kept, and the conversation goes back to this moment."],
    [SOME, TALK, "No file is touched, and the conversation goes back to this moment."],
    [NOTHING, FILES, "All files are already as they were, and the conversation stays as it is."],
  ])("%#", (rehearsal, choice, words) => {
    expect(summary(rehearsal, choice)).toBe(words);
  });

  it("names every file that is written, removed, kept or cannot be put back", () => {
    const named = consequences({ ...SOME, unsaved: ["e"] }, FILES).flatMap((each) => each.paths);
    expect(named).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("names no file if only the conversation goes back", () => {
    expect(consequences(SOME, TALK)).toEqual([]);
  });

  it.each([
    [SOME, FILES, true],
    [NOTHING, FILES, false],
    [{ ...NOTHING, kept: ["d"] }, FILES, false],
    [NOTHING, TALK, true],
  ])("does something or not: %#", (rehearsal, choice, does) => {
    expect(changesAnything(rehearsal, choice)).toBe(does);
  });
});

it("says on the button what it does", () => {
  expect([FILES, BOTH, TALK].map(buttonWords)).toEqual([
    "Put the files back",
    "Go back with files and conversation",
    "Go back in the conversation only",
  ]);
});
