import { expect, it } from "vitest";
import { issuePrompt, issuesFor } from "./issues";

const issue = (number: number, title: string, body = "") => ({ number, title, body, url: "https://x/12" });

it("an issue becomes a prompt with its text and address", () => {
  expect(issuePrompt(issue(12, "Roof", " Leaks. "))).toBe("Resolve issue #12: Roof\n\nLeaks.\n\nhttps://x/12");
  expect(issuePrompt(issue(12, "Roof"))).toBe("Resolve issue #12: Roof\n\nhttps://x/12");
  expect(issuePrompt(issue(12, "Roof", "x".repeat(9_000))).length).toBeLessThan(8_100);
});

it("issues are found by number and words", () => {
  const all = [issue(1, "Paint the door"), issue(12, "Mend the roof")];
  expect(issuesFor(all, "#12").map((each) => each.number)).toEqual([12]);
  expect(issuesFor(all, "DOOR paint").map((each) => each.number)).toEqual([1]);
  expect(issuesFor(all, "")).toHaveLength(2);
});
