import { beforeEach, expect, it } from "vitest";
import type { KnownModel } from "../protocol";
import { EMPTY, withOffered } from "./form";
import { saveOwnModels, ownModels } from "./own-models";

const known = [{ provider: "p", model: "a" }] as KnownModel[];

beforeEach(() => localStorage.clear());

it("typed model names are offered again, newest first, without duplicates", () => {
  saveOwnModels({ ...EMPTY, model: "q/x" }, known);
  saveOwnModels({ ...EMPTY, model: "p/a", versions: 2, models: ["q/y", "q/x", "q/unused", ""] }, known);
  expect(ownModels()).toEqual(["q/y", "q/x"]);
  expect(withOffered({ ...EMPTY, model: "q/x" }, known, [], ownModels()).model).toBe("q/x");
});

it("a damaged list of typed models is ignored", () => {
  localStorage.setItem("rookery.new-agent.own-models", '{"a":1}');
  expect(ownModels()).toEqual([]);
});
