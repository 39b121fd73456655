import { effect } from "@preact/signals";
import { describe, expect, it } from "vitest";
import { Random } from "./test-support/random";
import type { Row, RowChange, ViewChange } from "./protocol";
import { changedRow, TaskView } from "./view";

const say = (ts: number, text = ""): Row => ({ ts, type: "say", say: "text", text });
const apply = (view: TaskView, change: ViewChange, earlier = 0) => view.apply({ follow_id: 1, seq: 1, earlier, change });
const texts = (view: TaskView) => view.rows.value.map((each) => each.row.value.text);

describe("applying a change to a row", () => {
  const row: Row = { ts: 1, type: "say", say: "text", text: "Hello", partial: true, html: ["<p>a</p>"], html_upto: 2 };
  const cases: [string, RowChange, Partial<Row>][] = [
    ["appends text", { ts: 1, append: " there" }, { text: "Hello there" }],
    ["drops the end of the text first", { ts: 1, drop: 2, append: "p" }, { text: "Help" }],
    ["drops all text", { ts: 1, drop: 5, append: "" }, { text: "" }],
    ["replaces the text", { ts: 1, text: "Else" }, { text: "Else" }],
    ["completes the row", { ts: 1, partial: false }, { partial: false, text: "Hello" }],
    ["adds HTML", { ts: 1, html_add: ["<p>b</p>"], html_upto: 4 }, { html: ["<p>a</p>", "<p>b</p>"], html_upto: 4 }],
    ["replaces the HTML", { ts: 1, html: ["<p>c</p>"] }, { html: ["<p>c</p>"] }],
  ];
  it.each(cases)("%s", (_, change, expected) => {
    expect(changedRow(row, change)).toEqual({ ...row, ...expected });
  });

  it("counts UTF-16 units like the manager", () => {
    expect(changedRow({ ...row, text: "🏰 old" }, { ts: 1, drop: 3, append: "new 🏰" }).text).toBe("🏰 new 🏰");
  });
});

describe("a view", () => {
  it("sorts rows by time, including rows from before the window", () => {
    const view = new TaskView();
    apply(view, { added: [say(30, "c"), say(40, "d")] }, 2);
    expect(view.earlier.value).toBe(2);
    apply(view, { added: [say(10, "a"), say(20, "b")] }, 0);
    apply(view, { added: [say(50, "e")] });
    expect(texts(view)).toEqual(["a", "b", "c", "d", "e"]);
    expect(view.row(30)?.text).toBe("c");
    expect([view.row(35), view.row(null), view.row(99)]).toEqual([null, null, null]);
  });

  it("re-renders only the row that changes", () => {
    const view = new TaskView();
    apply(view, { added: [say(1), say(2)] });
    let lists = 0;
    let first = 0;
    let second = 0;
    effect(() => void (view.rows.value, lists++));
    effect(() => void (view.rows.value[0]!.row.value, first++));
    effect(() => void (view.rows.value[1]!.row.value, second++));
    apply(view, { changed: [{ ts: 2, append: "word" }] });
    expect([lists, first, second]).toEqual([1, 1, 2]);
  });

  it("applies a change at once", () => {
    const view = new TaskView();
    const seen: string[] = [];
    effect(() => void seen.push(`${view.rows.value.length} ${view.parts.value.open_ask ?? "-"} ${view.earlier.value}`));
    apply(view, { added: [say(1), say(2)], parts: { open_ask: 2 } }, 7);
    expect(seen).toEqual(["0 - 0", "2 2 7"]);
  });

  it("keeps parts that a change does not mention", () => {
    const view = new TaskView();
    apply(view, { parts: { mode: "code", silence: 3 } });
    apply(view, { parts: { silence: 0 } });
    expect(view.parts.value).toEqual({ mode: "code", silence: 0 });
  });

  it("keeps its old rows until the first change after a restart", () => {
    const view = new TaskView();
    apply(view, { added: [say(1, "old")], parts: { mode: "code" } });
    view.restart();
    expect(texts(view)).toEqual(["old"]);
    apply(view, { added: [say(5, "new")], parts: { silence: 1 } });
    apply(view, { added: [say(6, "more")] });
    expect(texts(view)).toEqual(["new", "more"]);
    expect(view.parts.value).toEqual({ silence: 1 });
  });

  it("ignores changes to rows outside the window", () => {
    const view = new TaskView();
    apply(view, { added: [say(5, "a")] });
    apply(view, { changed: [{ ts: 1, append: "x" }], removed: [2, 3] });
    expect(texts(view)).toEqual(["a"]);
  });

  it.each(Array.from({ length: 60 }, (_, seed) => seed))("matches a plain list of rows (seed %i)", (seed) => {
    const random = new Random(seed);
    const view = new TaskView();
    const plain = new Map<number, string>();
    for (let step = 0; step < 60; step++) {
      const known = [...plain.keys()];
      const change: ViewChange = {};
      if (random.once(2)) {
        const rows = Array.from({ length: 1 + random.below(3) }, () => say(random.below(500), random.words()));
        change.added = [...new Map(rows.filter((each) => !plain.has(each.ts)).map((each) => [each.ts, each])).values()];
      } else if (known.length && random.once(3)) {
        change.removed = [random.of(known)];
      } else if (known.length) {
        const ts = random.of(known);
        const text = plain.get(ts)!;
        const kept = [...text].slice(0, random.below(3)).join("");
        const append = random.words();
        change.changed = [random.once(4) ? { ts, text: append } : { ts, drop: text.length - kept.length, append }];
        plain.set(ts, change.changed[0]!.text === undefined ? kept + append : append);
      }
      for (const each of change.added ?? []) plain.set(each.ts, each.text!);
      for (const ts of change.removed ?? []) plain.delete(ts);
      apply(view, change);
      const expected = [...plain.entries()].sort(([one], [other]) => one - other);
      expect(view.rows.value.map((each) => [each.ts, each.row.value.text])).toEqual(expected);
    }
  });
});
