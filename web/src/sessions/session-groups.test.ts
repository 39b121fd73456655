import { describe, expect, it } from "vitest";
import type { SessionRow } from "../protocol";
import { displayOrder, commonName, markedParts, searchSessions, queuePlaces, sectionsOf, groupSessions, versionNumbers } from "./session-groups";

const session = (session_id: string, about: Partial<SessionRow> & { active?: boolean; waits?: boolean } = {}) =>
  ({
    session_id,
    name: "",
    prompt: "",
    branch: "",
    model: null,
    mode: null,
    intent: "",
    archived: false,
    pinned: false,
    tags: [],
    ...about,
    flags: { is_active: about.active ?? false, needs_attention: about.waits ?? false },
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

it("sections are by state, then by the day of the time shown", () => {
  const now = new Date(2026, 2, 10, 9).getTime();
  const at = (day: number, hour = 12) => ({ start_time: 1, end_time: new Date(2026, 2, day, hour).getTime() });
  const rows = [
    session("pinned", { ...at(1), pinned: true }),
    session("on", { active: true }),
    session("asks", { active: true, state: "waiting_approval", waits: true }),
    session("failed", { state: "error", waits: true }),
    session("unread", { ...at(10, 1), state: "completed", waits: true }),
    session("late", at(9, 23)),
    session("week", at(4)),
    session("old", at(3)),
    session("away", { ...at(10), archived: true, pinned: true }),
  ];
  expect(sectionsOf(rows, now).map(({ title, rows }) => `${title}: ${ids(rows).join(" ")}`)).toEqual([
    "Pinned: pinned",
    "Needs you: asks failed",
    "Working: on",
    "Today: unread",
    "Yesterday: late",
    "Last 7 days: week",
    "Older: old",
    "Archived: away",
  ]);
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

it.each([
  ["I prefer Vermilion.", "verm", ["I prefer ", "[Verm]", "ilion."]],
  ["a.b a+b", "a+b .", ["a", "[.]", "b ", "[a+b]"]],
  ["plain", " ", ["plain"]],
])("words of a search are marked in %j", (text, words, parts) =>
  expect(markedParts(text, words).map((part) => (part.found ? `[${part.text}]` : part.text))).toEqual(parts),
);
