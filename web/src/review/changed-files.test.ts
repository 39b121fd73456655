import { describe, expect, it } from "vitest";

import {
  filtered,
  folderAndName,
  neighbour,
  startsCollapsed,
  stillChanged,
  sums,
} from "./changed-files";
import { file } from "./sample-diffs";

const FILES = [
  file("src/App.tsx"),
  file("src/new.ts", { kind: "added" }),
  file("logo.png", { binary: true, image: true }),
  file("lib/moved.ts", { kind: "renamed", old_path: "src/old.ts" }),
  file("package-lock.json", { generated: true }),
];

describe("the filter", () => {
  it.each([
    ["", [0, 1, 2, 3, 4]],
    ["  src ", [0, 1, 3]],
    ["SRC app", [0]],
    ["+added", [1]],
    ["+image", [2]],
    ["+generated json", [4]],
    ["+renamed old", [3]],
    ["nothing like it", []],
  ])("%j", (words, places) => {
    expect(filtered(FILES, words)).toEqual(places.map((at) => FILES[at]));
  });
});

describe("file navigation", () => {
  it.each([
    [null, 1, "src/App.tsx"],
    [null, -1, "package-lock.json"],
    ["src/App.tsx", 1, "src/new.ts"],
    ["src/new.ts", -1, "src/App.tsx"],
    ["src/App.tsx", -1, undefined],
    ["package-lock.json", 1, undefined],
  ] as const)("goes from %s by %i to %s", (path, step, next) => {
    expect(neighbour(FILES, path, step)?.path).toBe(next);
  });

  it("finds nothing in an empty list", () => {
    expect(neighbour([], null, 1)).toBeNull();
  });
});

it("generated and large files start collapsed", () => {
  expect(FILES.filter(startsCollapsed).map((each) => each.path)).toEqual(["package-lock.json"]);
  expect(startsCollapsed(file("big", { too_large: true }))).toBe(true);
});

it("sums up added and removed lines", () => {
  expect(sums(FILES)).toEqual({ added: 5, removed: 10 });
});

it("splits a path into folder and name", () => {
  expect(folderAndName("a/b/c.ts")).toEqual({ folder: "a/b/", name: "c.ts" });
  expect(folderAndName("c.ts")).toEqual({ folder: "", name: "c.ts" });
});

it("drops the selection of files that are gone", () => {
  expect([...stillChanged(new Set(["gone", "logo.png"]), FILES)]).toEqual(["logo.png"]);
});
