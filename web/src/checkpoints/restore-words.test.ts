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
    [SOME, FILES, "2 files are restored, 1 file is deleted, 1 file is left unchanged, and the conversation is not changed."],
    [SOME, BOTH, "2 files are restored, 1 file is deleted, 1 file is left unchanged, and the conversation is rewound to this point."],
    [SOME, TALK, "No file is changed, and the conversation is rewound to this point."],
    [NOTHING, FILES, "All files already match this checkpoint, and the conversation is not changed."],
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
    "Restore files",
    "Restore files and conversation",
    "Restore conversation",
  ]);
});
