import { describe, expect, it } from "vitest";
import { Random } from "./test-support/random";
import { changedList, inOrder, NOTHING_LISTED, type SessionList } from "./list";
import type { InboxRow, ListChange, Overview, SessionRow } from "./protocol";

const row = (session_id: string, name: string) => ({ session_id, name }) as SessionRow;
const ids = (list: SessionList) => inOrder(list).map((each) => each.session_id);

describe("the list", () => {
  it("starts complete and is then updated by changes", () => {
    const overview = { project: "p" } as Overview;
    const first = changedList(NOTHING_LISTED, {
      follow_id: 1,
      overview,
      rows: [row("a", "A"), row("b", "B")],
      order: ["b", "a"],
      inbox: [],
    });
    expect(ids(first)).toEqual(["b", "a"]);
    const later = changedList(first, { follow_id: 1, rows: [row("a", "A2")] });
    expect(later.rows.get("a")!.name).toBe("A2");
    expect(later.rows.get("b")).toBe(first.rows.get("b"));
    expect([later.overview, later.order, later.inbox]).toEqual([first.overview, first.order, first.inbox]);
  });

  it("keeps the identity of values that a change does not mention", () => {
    const before = changedList(NOTHING_LISTED, { follow_id: 1, rows: [row("a", "A")], order: ["a"] });
    const after = changedList(before, { follow_id: 1, inbox: [{ session_id: "a" } as InboxRow] });
    expect(after.rows).toBe(before.rows);
    expect(after.order).toBe(before.order);
  });

  it("shows rows without a position last, and no removed rows", () => {
    const list = changedList(NOTHING_LISTED, { follow_id: 1, rows: [row("a", "A"), row("b", "B")], order: ["x", "b"] });
    expect(ids(list)).toEqual(["b", "a"]);
    expect(ids(changedList(list, { follow_id: 1, removed: ["b"] }))).toEqual(["a"]);
  });

  it.each(Array.from({ length: 50 }, (_, seed) => seed))("matches a plain table (seed %i)", (seed) => {
    const random = new Random(seed);
    const table = new Map<string, SessionRow>();
    let order: string[] = [];
    let list = NOTHING_LISTED;
    for (let step = 0; step < 40; step++) {
      const change: ListChange = { follow_id: 1 };
      if (random.once(2)) {
        change.rows = [row(random.of(["a", "b", "c", "d", "e"]), random.words())];
        for (const each of change.rows) table.set(each.session_id, each);
      }
      if (random.once(4)) {
        const gone = random.of(["a", "b", "c", "d", "e"]);
        if (!change.rows?.some((each) => each.session_id === gone)) {
          change.removed = [gone];
          table.delete(gone);
        }
      }
      if (random.once(3)) {
        order = [...table.keys()].sort(() => random.below(3) - 1);
        change.order = order;
      }
      list = changedList(list, change);
      expect(Object.fromEntries(list.rows)).toEqual(Object.fromEntries(table));
      expect(ids(list).toSorted()).toEqual([...table.keys()].toSorted());
      const placed = ids(list).filter((id) => order.includes(id));
      expect(placed).toEqual(order.filter((id) => table.has(id)));
    }
  });
});
