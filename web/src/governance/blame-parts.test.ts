import { describe, expect, it } from "vitest";

import type { BlamedLine } from "../protocol";
import { chain, coverage, parts } from "./blame-parts";

const line = (number: number, record = "", more: Partial<BlamedLine> = {}): BlamedLine => ({
  line: number,
  text: `line ${number}`,
  record_id: record,
  intent: "",
  criterion: "",
  tool: "",
  approved_by: "",
  when: 0,
  ...more,
});

describe("parts of a blamed file", () => {
  it("are consecutive lines of one record", () => {
    const lines = [line(1, "r1"), line(2, "r1"), line(3), line(4), line(5, "r1"), line(6, "r2")];
    expect(parts(lines).map(({ from, to, by }) => [from, to, by?.record_id ?? null])).toEqual([
      [1, 2, "r1"],
      [3, 4, null],
      [5, 5, "r1"],
      [6, 6, "r2"],
    ]);
  });

  it("end where the criterion changes", () => {
    expect(parts([line(1, "r", { criterion: "a" }), line(2, "r", { criterion: "b" })])).toHaveLength(2);
  });

  it("contain every line once", () => {
    const lines = Array.from({ length: 50 }, (_, at) => line(at + 1, at % 7 < 4 ? "r" : ""));
    expect(parts(lines).flatMap((part) => part.lines)).toEqual(lines);
    expect(parts([])).toEqual([]);
  });
});

it("counts the lines that the ledger knows", () => {
  expect(coverage([line(1, "r"), line(2)])).toBe("1 of 2 lines");
  expect(coverage([line(1)])).toBe("0 of 1 line");
});

it("lists the known links of the chain", () => {
  const by = line(1, "r1", { intent: "INT-1", approved_by: "user" });
  expect(chain(by)).toEqual([
    { name: "Record", text: "r1" },
    { name: "Intent", text: "INT-1" },
    { name: "Approved by", text: "user" },
  ]);
});
