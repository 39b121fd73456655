import { describe, expect, it } from "vitest";

import { contextFor, filled, hiddenLines } from "./gaps";
import { diff } from "./sample-diffs";

const NARROW = diff("@4", " e", "-f", "+F", " g", "@3", " k", "+K", "@0");
const WIDE = diff(
  ...[" a", " b", " c", " d", " e", "-f", "+F", " g", " h", " i", " j", " k", "+K", " l", " m"],
);

describe("a gap", () => {
  it.each([
    [0, 4],
    [5, 3],
    [8, null],
  ])("at %i hides %s lines", (at, hidden) => {
    expect(hiddenLines(NARROW, at)).toBe(hidden);
  });

  it("counts old lines if one side has only additions", () => {
    expect(hiddenLines(diff("+a", "@7", " b"), 1)).toBe(7);
  });

  it("uses its own number if it has one", () => {
    const [gap] = diff("@0");
    expect(hiddenLines([{ ...gap!, old: 8, new: 8, html: "<i>12</i> lines" }], 0)).toBe(12);
  });

  it("does not count from another gap", () => {
    const gap = diff("@0")[0]!;
    const [, added, same] = diff("@2", "+x", " y");
    expect(hiddenLines([{ ...gap, old: 1, new: 1 }, added!, gap, { ...same!, old: 9 }], 2)).toBe(8);
  });

  it("is loaded in parts if it is long", () => {
    expect(contextFor(diff("@5000", " a"), 0)).toBe(203);
    expect(contextFor(diff("@9", " a"), 0)).toBe(12);
  });
});

describe("filling a gap", () => {
  const texts = (at: number) => filled(NARROW, at, WIDE).map((line) => line.html);

  it("at the start, in the middle or at the end leaves the other gaps unchanged", () => {
    expect(texts(0)).toEqual(["a", "b", "c", "d", "e", "f", "F", "g", "", "k", "K", ""]);
    expect(texts(5)).toEqual(["", "e", "f", "F", "g", "h", "i", "j", "k", "K", ""]);
    expect(texts(8)).toEqual(["", "e", "f", "F", "g", "", "k", "K", "l", "m"]);
  });

  it("after another gives the whole file", () => {
    const lines = [8, 5, 0].reduce((shown, at) => filled(shown, at, WIDE), NARROW as readonly (typeof NARROW)[0][]);
    expect(lines).toEqual(WIDE);
  });

  it("leaves a shorter gap if the wider diff still has one", () => {
    const wide = diff("@2", " c", " d", " e", "-f", "+F", " g", "@3", " k", "+K", "@0");
    expect(filled(NARROW, 0, wide)).toEqual(wide);
  });

  it("takes the whole wider diff if the file has changed", () => {
    const other = diff(" x", "-y", "+Y");
    expect(filled(NARROW, 5, other)).toBe(other);
  });
});
