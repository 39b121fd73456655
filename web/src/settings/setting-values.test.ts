import { describe, expect, it } from "vitest";

import type { SettingRow } from "../protocol";
import { searchSettings, grouped, isOn, isSame, labelOf, controlText, sourceWords, parseInput } from "./setting-values";

const row = (type: SettingRow["type"], value: unknown, key = "limits.turns"): SettingRow => ({
  key,
  value: JSON.stringify(value),
  type,
  summary: "How many turns.",
  choices: [],
  source: "default",
});

it("groups settings by topic, in order", () => {
  const keys = ["manager.running_limit", "model", "manager.port", "approve_edits", "commands.allow", "max_cost", "a.b.c", "x"];
  const groups = grouped(keys.map((key) => row("str", "", key)));
  expect(groups.map((group) => [group.title, group.rows.map(labelOf)])).toEqual([
    ["Manager", ["Running limit", "Port"]],
    ["Model", ["Model"]],
    ["Approvals", ["Approve edits", "Commands: allow"]],
    ["Limits", ["Max cost"]],
    ["A", ["B: c"]],
    ["General", ["X"]],
  ]);
});

it.each([
  ["", 2],
  ["turns HOW", 1],
  ["nothing", 0],
])("searches by words: %j", (words, number) => {
  const rows = [row("int", 1), { ...row("int", 1, "other"), summary: "" }];
  expect(searchSettings(rows, words)).toHaveLength(number);
});

describe("the control", () => {
  it.each([
    [row("int", 5), "5"],
    [row("float", 0.5), "0.5"],
    [row("str", "a b"), "a b"],
    [row("str", null), ""],
    [row("list", ["a", "b"]), "a\nb"],
    [row("list", [{ a: 1 }]), '{"a":1}'],
    [{ ...row("str", ""), value: "not JSON" }, ""],
  ])("%#", (setting, text) => {
    expect(controlText(setting)).toBe(text);
  });

  it("is on only for true", () => {
    expect(isOn(row("bool", true))).toBe(true);
    expect(isOn(row("bool", "true"))).toBe(false);
  });
});

describe("parseInput text", () => {
  it.each([
    [row("int", 5), " 12 ", { json: "12" }],
    [row("int", 5), "1.5", { problem: "Enter a whole number." }],
    [row("int", 5), "", { json: "null" }],
    [row("str", "x"), "", { json: '""' }],
    [row("str", null), "", { json: "null" }],
    [{ ...row("str", "x"), choices: ["x", "y"] }, "", { json: "null" }],
    [row("float", 5), "1.5", { json: "1.5" }],
    [row("float", 5), "x", { problem: "Enter a number." }],
    [row("float", 5), " ", { json: "null" }],
    [row("bool", false), "true", { json: "true" }],
    [row("str", ""), ' "x" ', { json: '" \\"x\\" "' }],
    [row("list", []), " a \n\nb\n", { json: '["a","b"]' }],
    [row("list", []), "1", { json: '["1"]' }],
    [row("list", [1, 2]), "1\n3", { json: "[1,3]" }],
  ])("%#", (setting, text, result) => {
    expect(parseInput(setting, text)).toEqual(result);
  });

  it("round-trips through the control", () => {
    for (const setting of [row("int", -3), row("float", 1e-7), row("str", "ü\n\""), row("list", ["a", "b"])]) {
      const back = parseInput(setting, controlText(setting));
      expect("json" in back && isSame(setting, back.json)).toBe(true);
    }
  });
});

it("shows the source of a value", () => {
  expect(sourceWords("default")).toBe("Default");
  expect(sourceWords("user")).toBe("Set in user");
});
