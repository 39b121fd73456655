import { expect, it } from "vitest";
import { mergeWords } from "./acts";

it.each([
  [{ ahead: 1, uncommitted: 0 }, /^1 commit is merged into main in the project\. Nothing is done unless main/],
  [{ ahead: 2, uncommitted: 1 }, /^2 commits are merged into main .* 1 file with uncommitted changes is left out/],
  [{ ahead: 0, uncommitted: 3 }, /^It has no commits to merge\. 3 files with uncommitted changes are left out/],
])("a merge says into what, and what is left out: %o", (stats, words) => {
  expect(mergeWords("main", stats)).toMatch(words);
});
