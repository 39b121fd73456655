import { describe, expect, it } from "vitest";

import type { RestoreRehearsal } from "../protocol";
import { type Choice, buttonWords, changesAnything, consequences, summary } from "./restore-words";

const NOTHING: RestoreRehearsal = { written: [], removed: [], kept: [], unsaved: [], problem: "" };
const SOME: RestoreRehearsal = { ...NOTHING, written: ["a", "b"], removed: ["c"], kept: ["d"] };
const FILES: Choice = { files: true, conversation: false, overwrite: false };
const BOTH: Choice = { ...FILES, conversation: true };
const TALK: Choice = { files: false, conversation: true, overwrite: false };

describe("the plan of a restore", () => {
  it.each([
    [SOME, FILES, "2 files are restored, 1 file is deleted, 1 file is left unchanged, and the conversation is not changed."],
    [SOME, BOTH, "2 files are restored, 1 file is deleted, 1 file is left unchanged, and the conversation is rewound to this point."],
    [SOME, TALK, "No file is changed, and the conversation is rewound to this point."],
    [NOTHING, FILES, "All files already match this checkpoint, and the conversation is not changed."],
  ])("%#", (rehearsal, choice, words) => {
    expect(summary(rehearsal, choice)).toBe(words);
  });

  it("lists every file that is restored, deleted, kept or not saved", () => {
    const named = consequences({ ...SOME, unsaved: ["e"] }, FILES).flatMap((each) => each.paths);
    expect(named).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("lists no file if only the conversation is restored", () => {
    expect(consequences(SOME, TALK)).toEqual([]);
  });

  it.each([
    [SOME, FILES, true],
    [NOTHING, FILES, false],
    [{ ...NOTHING, kept: ["d"] }, FILES, false],
    [NOTHING, TALK, true],
  ])("changes something or not: %#", (rehearsal, choice, does) => {
    expect(changesAnything(rehearsal, choice)).toBe(does);
  });
});

it("names its effect on the button", () => {
  expect([FILES, BOTH, TALK].map(buttonWords)).toEqual([
    "Restore files",
    "Restore files and conversation",
    "Restore conversation",
  ]);
});
