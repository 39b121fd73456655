import { expect, it } from "vitest";
import type { SessionRow } from "../protocol";
import { progressText } from "./progress";

const row = {} as SessionRow;

it("a long wait shows what the agent is waiting for, if known", () => {
  expect(progressText(null, { silence: 12.4 }, row)).toBe("Waiting for the model (12 s)");
  expect(progressText(null, { silence: 3, waiting_for: "Loading m.gguf" }, row)).toBe("Loading m.gguf (3 s)");
  expect(progressText(null, { silence: 0 }, row)).toBe("Working");
});
