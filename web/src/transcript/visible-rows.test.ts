import { describe, expect, it } from "vitest";
import { Random } from "../test-support/random";
import { MARGIN, mergeRuns, rowAt, visibleRun, focusRun, selectionRun, staysAtEnd } from "./visible-rows";

const topsOf = (heights: readonly number[]) => {
  const tops = new Float64Array(heights.length + 1);
  heights.forEach((height, at) => (tops[at + 1] = tops[at]! + height));
  return tops;
};

describe("the drawn rows", () => {
  const even = topsOf(Array.from({ length: 1000 }, () => 50));

  it("are those in the viewport and a margin around it", () => {
    expect(visibleRun(even, 20_000, 20_500)).toEqual({ from: (20_000 - MARGIN) / 50, to: (20_500 + MARGIN) / 50 + 1 });
  });

  it.each([
    ["at the beginning", 0, 0, 0],
    ["above it", -9_000, -8_500, 0],
    ["at the end", 49_500, 50_000, 1000],
    ["below it", 90_000, 90_500, 1000],
  ])("exist %s too", (_, top, bottom, edge) => {
    const { from, to } = visibleRun(even, top, bottom);
    expect(to - from).toBeGreaterThan(0);
    expect(edge ? to : from).toBe(edge);
  });

  it("are none if there are no rows", () => {
    const { from, to } = visibleRun(topsOf([]), 0, 500);
    expect(to - from).toBe(0);
  });

  it("are all that overlap the viewport, whatever their heights", () => {
    const random = new Random(7);
    for (let round = 0; round < 200; round++) {
      const heights = Array.from({ length: 1 + random.below(60) }, () => random.below(4) * random.below(300));
      const tops = topsOf(heights);
      const top = random.below(tops.at(-1)! + 1);
      const { from, to } = visibleRun(tops, top, top + 500);
      const seen = heights.flatMap((height, at) => (height && tops[at]! < top + 500 && tops[at + 1]! > top ? [at] : []));
      expect(seen.filter((at) => at < from || at >= to)).toEqual([]);
    }
  });

  it("are found by height", () => {
    const tops = topsOf([10, 0, 20, 30]);
    expect([-5, 0, 9, 10, 29, 30, 500].map((height) => rowAt(tops, height))).toEqual([0, 0, 0, 2, 2, 3, 3]);
  });

  it("include the focused row and its neighbours", () => {
    expect(focusRun(0, 100)).toEqual({ from: 0, to: 3 });
    expect(focusRun(99, 100)).toEqual({ from: 97, to: 100 });
  });

  it("include the selection in either direction, unless it is too long", () => {
    expect(selectionRun(9, 4)).toEqual([{ from: 4, to: 10 }]);
    expect(selectionRun(0, 5_000)).toEqual([]);
  });

  it("are drawn once each, in order", () => {
    const runs = [{ from: 50, to: 90 }, { from: 10, to: 12 }, { from: 85, to: 95 }, { from: 12, to: 14 }, { from: 3, to: 3 }];
    expect(mergeRuns(runs)).toEqual([{ from: 10, to: 14 }, { from: 50, to: 95 }]);
  });
});

describe("a view at the end", () => {
  const box = (scrollTop: number, scrollHeight = 1000, clientHeight = 500) => ({ scrollTop, scrollHeight, clientHeight });
  const atEnd = { atEnd: true, top: 500 };

  it.each([
    ["stays there if nothing moved", box(500), true],
    ["stays there if the text grows", box(500, 1400), true],
    ["stays there if the box shrinks", box(500, 1000, 300), true],
    ["stays there if rows are removed", box(400, 900), true],
    ["leaves it on scrolling up", box(300), false],
    ["leaves it on scrolling up while the text grows", box(450, 1400), false],
    ["stays there after a tiny movement", box(460), true],
  ])("%s", (_, now, stays) => expect(staysAtEnd(now, atEnd)).toBe(stays));

  it("returns on scrolling down to the end, not before", () => {
    expect(staysAtEnd(box(350), { atEnd: false, top: 300 })).toBe(false);
    expect(staysAtEnd(box(480), { atEnd: false, top: 300 })).toBe(true);
  });
});
