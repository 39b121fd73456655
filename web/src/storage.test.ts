import { afterEach, expect, it } from "vitest";
import { loadValue, saveValue } from "./storage";

const visit = (path: string) => history.replaceState(null, "", path);

afterEach(() => visit("/"));

it("a draft belongs to its project, the theme to the browser", () => {
  visit("/p/0123456789abcdef/");
  saveValue("new-agent.prompt", "Fix it");
  saveValue("theme", "dark");
  visit("/p/fedcba9876543210/");
  expect([loadValue("new-agent.prompt", ""), loadValue("theme", "system")]).toEqual(["", "dark"]);
  visit("/p/0123456789abcdef/");
  expect(loadValue("new-agent.prompt", "")).toBe("Fix it");
  saveValue("new-agent.prompt", undefined);
  expect(loadValue("new-agent.prompt", "")).toBe("");
});
