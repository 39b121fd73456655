import { beforeEach, describe, expect, it } from "vitest";

import {
  type Draft,
  commentsOf,
  saveDrafts,
  storedDrafts,
  outdated,
  placeOf,
  plainText,
  withDraft,
  withoutDraft,
  wordsFor,
} from "./comments";
import { diff } from "./sample-diffs";

const draft = (line: number, text: string, more: Partial<Draft> = {}): Draft => ({
  path: "a.py",
  line,
  old: false,
  text,
  quote: "",
  ...more,
});

beforeEach(() => localStorage.clear());

describe("the place of a comment", () => {
  const [same, removed, added, gap] = diff(" a", "-b", "+c", "@1");

  it("is the new line, or the old line of a removal", () => {
    expect(placeOf("f", same!)).toEqual({ path: "f", line: 1, old: false });
    expect(placeOf("f", removed!)).toEqual({ path: "f", line: 2, old: true });
    expect(placeOf("f", added!)).toEqual({ path: "f", line: 2, old: false });
    expect(placeOf("f", gap!)).toBeNull();
  });

  it("has a description", () => {
    expect(wordsFor({ path: "f", line: 3, old: true })).toBe("f, removed line 3");
  });
});

describe("drafts", () => {
  it("are one per place, sorted by file and line", () => {
    let drafts: readonly Draft[] = [];
    drafts = withDraft(drafts, draft(9, "second"));
    drafts = withDraft(drafts, draft(2, "first", { path: "b.py" }));
    drafts = withDraft(drafts, draft(3, "x"));
    drafts = withDraft(drafts, draft(3, "x, better"));
    drafts = withDraft(drafts, draft(3, "of the old line", { old: true }));
    expect(drafts.map((each) => each.text)).toEqual([
      "of the old line",
      "x, better",
      "second",
      "first",
    ]);
  });

  it("are removed if they are empty, and can be deleted", () => {
    const drafts = withDraft([], draft(3, "x"));
    expect(withDraft(drafts, draft(3, "  \n"))).toEqual([]);
    expect(withoutDraft(drafts, draft(3, ""))).toEqual([]);
    expect(withoutDraft(drafts, draft(3, "", { old: true }))).toEqual(drafts);
  });

  it("are sent without fields that only the page uses", () => {
    expect(commentsOf([draft(3, " x \n", { quote: "q" })])).toEqual([
      { path: "a.py", line: 3, old: false, text: "x" },
    ]);
  });

  it("are outdated once their line is gone or has changed", () => {
    const lines = diff(" a", "+<b>x</b> &lt; y");
    const drafts = [
      draft(1, "fits", { quote: "a" }),
      draft(2, "fits too", { quote: "x < y" }),
      draft(2, "changed", { quote: "x" }),
      draft(7, "gone", { quote: "z" }),
      draft(1, "of another file", { path: "b.py", quote: "z" }),
    ];
    expect(outdated(drafts, "a.py", lines).map((each) => each.text)).toEqual(["changed", "gone"]);
  });

  it("are stored per session and survive a reload", () => {
    const drafts = [draft(3, "x")];
    saveDrafts("s1", drafts);
    expect(storedDrafts("s1")).toEqual(drafts);
    expect(storedDrafts("s2")).toEqual([]);
    saveDrafts("s1", []);
    expect(localStorage.length).toBe(0);
  });

  it.each(["{", "null", "{}", '[1,null,{"path":"x"}]'])("are empty if the stored value is damaged: %s", (text) => {
    localStorage.setItem("rookery.review.comments.s", text);
    expect(storedDrafts("s")).toEqual([]);
  });
});

describe("the text of a highlighted line", () => {
  it.each([
    ['<span class="k">if</span> a &amp;&amp; b', "if a && b"],
    ["&amp;lt;", "&lt;"],
    ["&quot;&#39;&#x27;", "\"''"],
    ["", ""],
  ])("%s", (html, text) => {
    expect(plainText(html)).toBe(text);
  });
});
