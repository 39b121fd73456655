import { describe, expect, it } from "vitest";
import { ago, counted, duration, money, tokens } from "./format";

const MINUTE = 60_000;

describe("formatting", () => {
  it.each([
    [0, "$0"],
    [0.004, "<1¢"],
    [0.01, "$0.01"],
    [1.239, "$1.24"],
    [99.994, "$99.99"],
    [123.4, "$123"],
  ])("%f dollars", (dollars, words) => expect(money(dollars)).toBe(words));

  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1k"],
    [1250, "1.3k"],
    [9949, "9.9k"],
    [9950, "10k"],
    [999_499, "999k"],
    [999_500, "1M"],
    [2_345_678, "2.3M"],
  ])("%i tokens", (count, words) => expect(tokens(count)).toBe(words));

  it.each([
    [-5, "0 s"],
    [59_000, "59 s"],
    [61_000, "1 min"],
    [60 * MINUTE, "1 h"],
    [90 * MINUTE, "1 h 30 min"],
    [48 * 60 * MINUTE, "2 days"],
  ])("%i milliseconds", (milliseconds, words) => expect(duration(milliseconds)).toBe(words));

  it.each([
    [0, "now"],
    [5 * MINUTE, "5 min"],
    [3 * 60 * MINUTE, "3 h"],
    [50 * 60 * MINUTE, "2 d"],
  ])("%i milliseconds ago", (passed, words) => expect(ago(1e12 - passed, 1e12)).toBe(words));

  it("counts with singular and plural", () => expect([counted(1, "line"), counted(2, "line")]).toEqual(["1 line", "2 lines"]));
});
