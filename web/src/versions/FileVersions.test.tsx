import { act } from "preact/test-utils";
import { beforeAll, expect, it, vi } from "vitest";

import type { ChangedFile, DiffLine, Version } from "../protocol";
import { click, mount } from "../test-support/mount";
import { FakeManager } from "../test-support/fake-manager";
import { FileVersions } from "./FileVersions";

const manager = new FakeManager();
const version = (id: string, worktree_id = `w-${id}`) => ({ session_id: id, worktree_id, model: "m" }) as Version;
const changed = (path: string) => ({ path, added: 1, removed: 0, digest: "d" }) as ChangedFile;
const LINES: DiffLine[] = [
  { kind: "gap", old: null, new: null, html: "3" },
  { kind: "removed", old: 4, new: null, html: "<b>old</b>" },
  { kind: "added", old: null, new: 4, html: "new" },
];

beforeAll(async () => {
  manager.answers.read_diff = { file: changed("a.py"), lines: LINES, note: "", old_image: "", new_image: "" };
  await manager.connect();
});

const texts = (place: HTMLElement, what: string) => [...place.querySelectorAll(what)].map((each) => each.textContent);

it("shows the diffs of one file side by side, and which versions did not change it", async () => {
  const files = new Map([["a", [changed("a.py")]], ["b", [changed("a.py"), changed("b.py")]], ["c", []]]);
  const versions = [version("a"), version("b"), version("c"), version("d", "")];
  const place = await mount(<FileVersions versions={versions} files={files} />);
  await vi.waitFor(() => expect(place.querySelectorAll("table")).toHaveLength(2));
  expect(texts(place, "strong")).toEqual(["Version 1", "Version 2", "Version 3", "Version 4"]);
  expect(texts(place, "p")).toEqual(["Not changed in this version.", "The worktree was removed."]);
  expect(texts(place, "table:first-of-type tr").slice(0, 3)).toEqual(["3 unchanged lines", "4−old", "4+new"]);
  expect(manager.requestsOf("read_diff").map((asked) => [asked.session_id, asked.path])).toEqual([["a", "a.py"], ["b", "a.py"]]);

  await click(place, "a.py");
  await vi.waitFor(() => expect(texts(place, '[role="option"]')).toEqual(["a.py (2 of 4)", "b.py (1 of 4)"]));
  await act(() => place.querySelectorAll<HTMLElement>('[role="option"]')[1]!.click());
  await vi.waitFor(() => expect(manager.requestsOf("read_diff").at(-1)!.path).toBe("b.py"));
});

it("shows nothing if no file was changed", async () => {
  expect((await mount(<FileVersions versions={[version("a")]} files={new Map()} />)).innerHTML).toBe("");
});
