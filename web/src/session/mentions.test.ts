import { describe, expect, it } from "vitest";
import { mentionAt, withPath } from "./mentions";

describe("a file mention", () => {
  it.each([
    ["@", 1, ""],
    ["see @sr", 7, "sr"],
    ["see @/src/a", 11, "src/a"],
    ["line\n@x", 7, "x"],
  ])("starts with an @: %s", (text, caret, letters) => expect(mentionAt(text, caret)?.letters).toBe(letters));

  it.each([
    ["me@example", 10],
    ["see @src and", 12],
    ["nothing", 3],
    ["@@", 2],
  ])("does not start in %s", (text, caret) => expect(mentionAt(text, caret)).toBeNull());

  it("is replaced by the escaped path, with the caret behind it", () => {
    const text = "see @re now";
    const mention = mentionAt(text, 7)!;
    expect(withPath(text, mention, "docs/read me.md", false)).toEqual({ text: "see @/docs/read\\ me.md now", caret: 23 });
    expect(withPath("@d", mentionAt("@d", 2)!, "docs", true)).toEqual({ text: "@/docs/ ", caret: 8 });
  });
});
