import { beforeEach, expect, it } from "vitest";
import { NOTHING_LISTED } from "../list";
import type { SessionRow } from "../protocol";
import { list, listLoaded } from "../store";
import { mount, press, type } from "../test-support/mount";
import { Sidebar } from "./Sidebar";

const row = (session_id: string, name: string, more: object = {}) =>
  ({
    session_id,
    name,
    prompt: "",
    branch: "",
    group_id: "",
    intent: "",
    state: "completed",
    start_time: 1,
    undelivered: [],
    tags: [],
    flags: {},
    changes: { revision: 0, files: 0, added: 0, removed: 0 },
    ...more,
  }) as unknown as SessionRow;
const setSessions = (...rows: SessionRow[]) => {
  const order = rows.map((each) => each.session_id);
  list.value = { ...NOTHING_LISTED, rows: new Map(rows.map((each) => [each.session_id, each])), order };
  listLoaded.value = true;
};
const names = (place: HTMLElement) => [...place.querySelectorAll(".session-name")].map((each) => each.textContent);

beforeEach(() => {
  location.hash = "";
});

it("Escape clears the search", async () => {
  setSessions(row("a", "Sum"), row("b", "Product"));
  const place = await mount(<Sidebar showHelp={() => undefined} />);
  const field = place.querySelector<HTMLInputElement>("input[type=search]")!;
  await type(field, "prod");
  expect(names(place)).toEqual(["Product"]);
  await press(field, "Escape");
  expect([names(place), field.value]).toEqual([["Sum", "Product"], ""]);
});

it("Enter in the search opens the first result", async () => {
  setSessions(row("a", "Sum"), row("b", "Product"));
  const place = await mount(<Sidebar showHelp={() => undefined} />);
  const field = place.querySelector<HTMLInputElement>("input[type=search]")!;
  await type(field, "prod");
  await press(field, "Enter");
  expect(location.hash).toBe("#/session/b");
});

it("versions are listed under one heading with a link to their comparison", async () => {
  setSessions(row("b", "Sum v2", { group_id: "g", start_time: 2 }), row("a", "Sum", { group_id: "g" }));
  const place = await mount(<Sidebar showHelp={() => undefined} />);
  expect(place.querySelector(".version-group-head")!.getAttribute("href")).toBe("#/versions/g");
  expect(names(place)).toEqual(["1Sum", "2Sum v2"]);
});
