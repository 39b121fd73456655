import { signal } from "@preact/signals";
import { describe, expect, it } from "vitest";
import type { Row } from "../protocol";
import { earlierFirst, isTooMuch, leftOut, ROWS_AT_ONCE, staysAtEnd } from "./window";

const rows = (count: number, from = 1) =>
  Array.from({ length: count }, (_, at) => ({ ts: from + at, row: signal({} as Row) }));

describe("the rows that are drawn", () => {
  it("are the newest at first", () => {
    expect(leftOut(rows(50), null)).toBe(0);
    expect(leftOut(rows(1000), null)).toBe(1000 - ROWS_AT_ONCE);
  });

  it("become more when one scrolls to the first of them, until there are no others", () => {
    const all = rows(500);
    let first: number | null = null;
    const hidden: number[] = [];
    for (let step = 0; step < 4; step++) {
      first = earlierFirst(all, first);
      hidden.push(leftOut(all, first));
    }
    expect(hidden).toEqual([100, 0, 0, 0]);
  });

  it("stay when others come after them", () => {
    const first = earlierFirst(rows(500), null);
    expect(leftOut(rows(900), first)).toBe(leftOut(rows(500), first));
  });

  it("include those that came from before the window", () => {
    expect(leftOut(rows(600, 1), 0)).toBe(0);
  });

  it("are too many for whoever is at the end, once they are many", () => {
    expect(isTooMuch(rows(ROWS_AT_ONCE * 2), 0)).toBe(false);
    expect(isTooMuch(rows(ROWS_AT_ONCE * 2 + 1), 0)).toBe(true);
    expect(isTooMuch(rows(5000), null)).toBe(false);
  });

  it("are the newest again if the first is gone", () => {
    expect(leftOut(rows(1000, 1), 5000)).toBe(800);
  });
});

describe("whoever is at the end of the rows", () => {
  const box = (scrollTop: number, scrollHeight = 1000, clientHeight = 500) => ({ scrollTop, scrollHeight, clientHeight });
  const atEnd = { atEnd: true, top: 500 };

  it.each([
    ["stays when nothing moved", box(500), true],
    ["stays when the text became longer", box(500, 1400), true],
    ["stays when the box became smaller", box(500, 1000, 300), true],
    ["stays when rows were taken away", box(400, 900), true],
    ["leaves by scrolling up", box(300), false],
    ["leaves by scrolling up while the text becomes longer", box(450, 1400), false],
    ["stays for a tiny movement", box(460), true],
  ])("%s", (_, now, stays) => expect(staysAtEnd(now, atEnd)).toBe(stays));

  it("comes back by scrolling down to it, and not before", () => {
    expect(staysAtEnd(box(350), { atEnd: false, top: 300 })).toBe(false);
    expect(staysAtEnd(box(480), { atEnd: false, top: 300 })).toBe(true);
  });
});
