import { afterEach, expect, it } from "vitest";
import { NOTHING_LISTED } from "../list";
import type { Overview, ProjectRow } from "../protocol";
import { list } from "../store";
import { mount } from "../test-support/mount";
import { ProjectStrip, WaitingElsewhere } from "./Projects";

const SHOP = {
  id: "0123456789abcdef",
  name: "shop\u202e",
  path: "/home/ada/shop",
  counts: { active: 2, history: 0, archived: 0, attention: 1 },
  running_limit: 5,
  waiting: [{ session_id: "s1", name: "Fix it", state: "waiting_input" }],
} as ProjectRow;
const show = (...other_projects: ProjectRow[]) => {
  list.value = { ...NOTHING_LISTED, overview: { project: "/home/ada/sums", other_projects } as unknown as Overview };
};

afterEach(() => (list.value = NOTHING_LISTED));

it("without another project there is nothing to see", async () => {
  show();
  expect((await mount(<ProjectStrip />)).innerHTML + (await mount(<WaitingElsewhere />)).innerHTML).toBe("");
});

it("other projects are links, with what waits there", async () => {
  show(SHOP);
  const links = [...(await mount(<ProjectStrip />)).querySelectorAll("a")];
  expect(links.map((each) => each.getAttribute("href"))).toEqual(["/p/0123456789abcdef/#/", "#/"]); // by name
  expect(links[0]!.textContent).toMatch(/^shop.+1/);
  expect(links[0]!.textContent).not.toContain("\u202e");
  expect(links[0]!.title).toBe("/home/ada/shop: 2 active of at most 5 at once");
  const waiting = await mount(<WaitingElsewhere />);
  expect(waiting.querySelector("a")!.getAttribute("href")).toBe("/p/0123456789abcdef/#/session/s1");
  expect(waiting.textContent).toContain("Has a question");
});
