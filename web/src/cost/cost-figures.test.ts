import { describe, expect, it } from "vitest";
import { barsOf, budgetWords, daysWithGaps, totalOf } from "./cost-figures";

const row = (name: string, cost: number | null, tokens_in = 0) => ({ name, cost, tokens_in, tokens_out: 0, session_id: "" });

describe("the cost page", () => {
  it("draws bars by dollars, or by tokens if nothing has a price", () => {
    expect(barsOf([row("a", 4), row("b", 1), row("c", null, 900)]).map((bar) => bar.share)).toEqual([100, 25, 0]);
    expect(barsOf([row("a", null, 10), row("b", null, 5)]).map((bar) => bar.share)).toEqual([100, 50]);
    expect(barsOf([])).toEqual([]);
  });

  it("knows no total if it knows no price", () => {
    expect(totalOf([row("a", null, 3), row("b", null, 4)])).toMatchObject({ cost: null, tokens_in: 7 });
    expect(totalOf([row("a", null), row("b", 2)]).cost).toBe(2);
  });

  it("shows days without usage between others, across a change of the clock", () => {
    const days = daysWithGaps([row("2026-03-28", 1), row("2026-03-30", 2)], "2026-03-01", "2026-03-31");
    expect(days.map((day) => `${day.name} ${day.cost}`)).toEqual([
      "2026-03-28 1",
      "2026-03-29 0",
      "2026-03-30 2",
      "2026-03-31 0",
    ]);
  });

  it("says how much of the budget is used", () => {
    expect(budgetWords(row("today", 1), 4)).toBe("25% of $4.00");
    expect(budgetWords(row("today", null, 9), 4)).toContain("no known price");
    expect(budgetWords(row("today", 5), 4)).toBe("The budget of $4.00 is used up (125%).");
  });
});
