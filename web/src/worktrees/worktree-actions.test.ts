import { expect, it } from "vitest";
import { mergeWords } from "./worktree-actions";

it.each([
  [{ ahead: 1, uncommitted: 0 }, /^1 commit will be merged into main in the project\. main must be checked out/],
  [{ ahead: 2, uncommitted: 1 }, /^2 commits will be merged into main .* 1 file with uncommitted changes is not included/],
  [{ ahead: 0, uncommitted: 3 }, /^There are no commits to merge\. 3 files with uncommitted changes are not included/],
])("a merge names its target and what is not included: %o", (stats, words) => {
  expect(mergeWords("main", stats)).toMatch(words);
});
