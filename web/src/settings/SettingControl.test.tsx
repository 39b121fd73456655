import { render } from "preact";
import { expect, it } from "vitest";
import type { SettingRow } from "../protocol";
import { SettingControl } from "./SettingControl";

const row: SettingRow = { key: "manager.daily_budget", value: "5", type: "float", summary: "", choices: [], source: "user" };

it("a value typed right after the control appeared is kept", async () => {
  const place = document.createElement("div");
  document.body.append(place);
  render(<SettingControl row={row} saved={() => {}} />, place);
  const field = place.querySelector("input")!;
  field.value = "0";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise((done) => setTimeout(done, 100)); // what runs after the first paint
  expect(field.value).toBe("0");
});
