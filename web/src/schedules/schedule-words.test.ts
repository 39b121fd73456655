import { expect, test } from "vitest";
import type { ScheduleRow } from "../protocol";
import { addRequest, budgetOf, EMPTY_FORM, formOf, formProblem, instantOf } from "./schedule-words";

const FORM = { ...EMPTY_FORM, prompt: "Look around" };

test("a form needs a prompt, a time and an amount", () => {
  expect(formProblem(EMPTY_FORM)).toBe("Write a prompt.");
  expect(formProblem({ ...FORM, cron: " " })).toBe("Give a cron line.");
  expect(formProblem({ ...FORM, kind: "at" })).toBe("Choose a time.");
  expect(formProblem({ ...FORM, budget: "-1" })).toMatch("budget");
  expect(formProblem({ ...FORM, budget: "0" })).toMatch("no limit");
  expect(formProblem(FORM)).toBeNull();
});

test("only the chosen kind is sent, and a time with its offset", () => {
  const form = { ...FORM, kind: "at" as const, at: "2026-05-03T09:00", budget: "2.5" };
  const request = addRequest(form);
  expect(request).toMatchObject({ cron: "", webhook: false, budget: 2.5, at: instantOf(form.at) });
  expect(request.at).toMatch(/Z$/);
  expect(addRequest({ ...form, kind: "webhook" })).toMatchObject({ cron: "", at: "", webhook: true });
});

test("a schedule is edited as it was made", () => {
  const at = Date.parse("2026-05-03T09:00");
  const row = { id: "1", name: "N", prompt: "P", at, budget: 2, used: 0.5 } as ScheduleRow;
  expect(formOf(row)).toMatchObject({ kind: "at", at: "2026-05-03T09:00", budget: "2" });
  expect(budgetOf(row)).toBe("$0.50 of $2.00 used today");
});
