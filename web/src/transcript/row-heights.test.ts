import { signal } from "@preact/signals";
import { describe, expect, it } from "vitest";
import type { Row } from "../protocol";
import { RowHeights } from "./row-heights";

const shown = (ts: number, row: Partial<Row>) => ({ ts, row: signal<Row>({ ts, type: "say", ...row }) });
const ends = (heights: RowHeights, rows: ReturnType<typeof shown>[]) => [...heights.topsOf(rows)].slice(1);

describe("row heights", () => {
  const [one, two, three] = [shown(1, { say: "text" }), shown(2, { say: "text" }), shown(3, { say: "error" })] as const;

  it("are measured, including the gap above", () => {
    const heights = new RowHeights();
    heights.learn(one, 100, 12);
    heights.learn(three, 50, 6);
    expect(ends(heights, [one, three])).toEqual([112, 168]);
  });

  it("are estimated from rows of the same kind", () => {
    const heights = new RowHeights();
    heights.learn(one, 100, 10);
    heights.learn(shown(9, { say: "text" }), 190, 10);
    expect(ends(heights, [one, two])).toEqual([110, 265]);
  });

  it("count each row once, with its last measurement", () => {
    const heights = new RowHeights();
    heights.learn(one, 100, 10);
    heights.learn(one, 300, 10);
    expect(ends(heights, [one, two])).toEqual([310, 620]);
  });

  it("keep the gap that was measured when the row above was drawn", () => {
    const heights = new RowHeights();
    heights.learn(one, 100, 2);
    heights.learn(one, 120);
    expect(heights.gapOf(one)).toBe(2);
  });

  it("are zero for invisible rows", () => {
    const hidden = [shown(1, { say: "api_req_finished" }), shown(2, { type: "ask", ask: "completion_result" })];
    expect(ends(new RowHeights(), hidden)).toEqual([0, 0]);
  });
});
