import { describe, expect, it } from "vitest";

import type { DiffLine } from "../protocol";
import { type DiffRow, piecesOf, rowsOf } from "./diff-rows";
import { diff } from "./sample-diffs";

function drawn(row: DiffRow): string {
  if (row.kind === "gap") return "@";
  if (row.kind === "line") return row.line.html;
  return `${row.left?.html ?? "·"}|${row.right?.html ?? "·"}`;
}

const TABLE: [string, DiffLine[], string[]][] = [
  ["nothing", [], []],
  ["same lines on both sides", diff(" a", " b"), ["a|a", "b|b"]],
  ["an added line beside the removed one", diff("-a", "+b"), ["a|b"]],
  ["more removed than added", diff("-a", "-b", "+c"), ["a|c", "b|·"]],
  ["more added than removed", diff("-a", "+b", "+c"), ["a|b", "·|c"]],
  ["only added", diff("+a", " b"), ["·|a", "b|b"]],
  ["only removed at the end", diff(" a", "-b"), ["a|a", "b|·"]],
  ["two consecutive changes stay separate", diff("-a", "+b", "-c", "+d"), ["a|b", "c|d"]],
  ["a gap ends a change", diff("-a", "@5", "+b"), ["a|·", "@", "·|b"]],
];

describe("split view", () => {
  it.each(TABLE)("%s", (_, lines, rows) => {
    expect(rowsOf(lines, "split").map(drawn)).toEqual(rows);
  });

  it("keeps every line and the order of both sides, for random diffs", () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 300; round++) {
      const texts = Array.from({ length: random(30) }, (_, i) => `${" -+"[random(3)]}${i}`);
      const lines = diff(...texts);
      const rows = rowsOf(lines, "split");
      const side = (pick: "left" | "right") =>
        rows.flatMap((row) => (row.kind === "pair" && row[pick] ? [row[pick]] : []));
      expect(side("left")).toEqual(lines.filter((line) => line.kind !== "added"));
      expect(side("right")).toEqual(lines.filter((line) => line.kind !== "removed"));
    }
  });
});

describe("unified view", () => {
  it("has one row per line, and gaps with their index", () => {
    const rows = rowsOf(diff(" a", "@3", "-b"), "unified");
    expect(rows.map(drawn)).toEqual(["a", "@", "b"]);
    expect(rows[1]).toEqual({ kind: "gap", at: 1 });
  });
});

describe("pieces", () => {
  it("contain all rows in order, up to their size", () => {
    const rows = rowsOf(diff(...Array.from({ length: 250 }, (_, i) => ` ${i}`)), "unified");
    const pieces = piecesOf(rows, 100);
    expect(pieces.map((piece) => piece.length)).toEqual([100, 100, 50]);
    expect(pieces.flat()).toEqual(rows);
  });
});
