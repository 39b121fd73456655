import { signal } from "@preact/signals";
import { expect, it } from "vitest";
import type { Row } from "../protocol";
import { click, mount } from "../test-support/mount";
import { Folds, FoldsContext } from "./folds";
import { TranscriptRow } from "./TranscriptRow";

it("expanded parts stay expanded when their row is drawn again, and others do not", async () => {
  const folds = new Folds();
  const draw = (ts: number) => {
    const row = signal<Row>({ ts, type: "say", say: "reasoning", text: "Hm." });
    return mount(
      <FoldsContext.Provider value={folds}>
        <TranscriptRow shown={{ ts, row }} place={4} count={signal(9)} session_id="s" fork={() => undefined} />
      </FoldsContext.Provider>,
    );
  };
  await click(await draw(1), "Thought");
  expect((await draw(2)).querySelector(".prose")).toBeNull();
  expect((await draw(1)).querySelector(".prose")).not.toBeNull();
});
