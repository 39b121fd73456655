import { describe, expect, it } from "vitest";
import type { SessionRow } from "../protocol";
import { displayOrder, commonName, searchSessions, queuePlaces, sectionsOf, groupSessions, versionNumbers } from "./session-groups";

const session = (session_id: string, about: Partial<SessionRow> & { active?: boolean } = {}) =>
  ({
    session_id,
    name: "",
    prompt: "",
    branch: "",
    model: null,
    mode: null,
    intent: "",
    archived: false,
    ...about,
    flags: { is_active: about.active ?? false },
  }) as SessionRow;
const ids = (rows: SessionRow[]) => rows.map((row) => row.session_id);

describe("searching sessions", () => {
  const rows = [
    session("a", { name: "Fix the Parser" }),
    session("b", { prompt: "parser tests", branch: "agent/fix" }),
    session("c", { model: "gpt-5" }),
  ];
  it.each([
    ["", ["a", "b", "c"]],
    ["  ", ["a", "b", "c"]],
    ["PARSER", ["a", "b"]],
    ["fix parser", ["a", "b"]],
    ["gpt", ["c"]],
    ["fix gpt", []],
  ])("by %s", (words, expected) => expect(ids(searchSessions(rows, words))).toEqual(expected));
});

it("queue positions follow the start time", () => {
  const rows = [
    session("late", { queued: true, start_time: 9 }),
    session("on", { start_time: 1 }),
    session("early", { queued: true, start_time: 2 }),
  ];
  expect([...queuePlaces(rows)]).toEqual([
    ["early", 1],
    ["late", 2],
  ]);
});

it("active sessions come first, archived ones last", () => {
  const rows = [
    session("done"),
    session("on", { active: true }),
    session("away", { archived: true }),
    session("odd", { archived: true, active: true }),
  ];
  const { active, history, archived } = sectionsOf(rows);
  expect([ids(active), ids(history), ids(archived)]).toEqual([["on"], ["done"], ["away", "odd"]]);
});

describe("versions of a prompt", () => {
  const version = (id: string, start_time: number, about: Partial<SessionRow> = {}) =>
    session(id, { group_id: "g", start_time, name: `Sum ${id}`, ...about });
  const rows = [version("b", 2), session("x", { group_id: "" }), version("a", 1), session("y", { group_id: "h" })];

  it("are grouped at the position of the first one, in start order", () => {
    expect(groupSessions(rows).map((each) => ids(each.rows))).toEqual([["a", "b"], ["x"], ["y"]]);
    expect(ids(displayOrder(rows))).toEqual(["a", "b", "x", "y"]);
  });

  it("are numbered if there are several", () => {
    expect([...versionNumbers(rows)]).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
  });

  it("are ordered by name if they started at the same time", () => {
    const twins = [version("2", 5, { name: "Sum v2" }), version("1", 5, { name: "Sum" })];
    expect(ids(groupSessions(twins)[0]!.rows)).toEqual(["1", "2"]);
    expect(commonName(twins)).toBe("Sum");
  });
});
