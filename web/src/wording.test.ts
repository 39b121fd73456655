import { expect, it } from "vitest";
import { shortenReferences } from "./wording";

const HASH = "0123456789".repeat(4);

it.each([
  [`Kept as refs/rookery/keep/a-1 (${HASH}).`, "Kept as a-1 (0123456789)."],
  ["agent/a: 0 uncommitted files, 10 unmerged commits.", "agent/a: 0 uncommitted files, 10 unmerged commits."],
])("hashes and references are shortenReferences: %s", (words, short) => expect(shortenReferences(words)).toBe(short));
