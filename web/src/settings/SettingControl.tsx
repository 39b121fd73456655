/** One setting with a control for its type. A text is saved on Enter or blur, others on change. */
import { useId, useLayoutEffect, useState } from "preact/hooks";

import { request } from "../connection";
import type { SettingRow } from "../protocol";
import { useAction } from "../requests";
import { Button, toast } from "../ui";
import { Select } from "../ui/select";
import { visibleLine } from "../visible-text";
import { isOn, isSame, isDefault, labelOf, controlText, sourceWords, parseInput } from "./setting-values";

export function SettingControl({ row, saved }: { row: SettingRow; saved: () => void }) {
  const id = useId();
  const [text, setText] = useState(controlText(row));
  const [problem, setProblem] = useState("");
  const action = useAction(setProblem);
  useLayoutEffect(() => setText(controlText(row)), [row.value]); // before the user can type

  const change = (value: string | null) =>
    action.run(async () => {
      setProblem("");
      const done = await request("change_setting", { key: row.key, value });
      const message = value === null ? `Reset ${labelOf(row)} to its default.` : `Saved ${labelOf(row)}.`;
      toast([message, ...done.notes].join(" "), "good");
      saved();
    });
  const commit = (written: string) => {
    if (written === controlText(row) && row.type !== "bool") return setProblem("");
    const result = parseInput(row, written);
    if ("problem" in result) return setProblem(result.problem);
    setProblem("");
    if (!isSame(row, result.json)) void change(result.json);
  };

  return (
    <div class="setting">
      <div class="setting-about">
        <label for={id}>{labelOf(row)}</label>
        {row.summary && (
          <p id={`${id}-about`} class="quiet small">
            {visibleLine(row.summary)}
          </p>
        )}
        <p class="quiet setting-source">
          <code>{row.key}</code> · {visibleLine(sourceWords(row.source))}
          {!isDefault(row) && (
            <Button compact kind="plain" icon="retry" busy={action.busy} onClick={() => change(null)}>
              Reset to default
            </Button>
          )}
        </p>
      </div>
      <div class="setting-control">
        <Control id={id} row={row} text={text} write={setText} commit={commit} invalid={problem !== ""} />
        {problem && (
          <div class="field-problem" role="alert">
            {problem}
          </div>
        )}
      </div>
    </div>
  );
}

interface ControlProps {
  id: string;
  row: SettingRow;
  text: string;
  write: (text: string) => void;
  commit: (text: string) => void;
  invalid: boolean;
}

function Control({ id, row, text, write, commit, invalid }: ControlProps) {
  const shared = {
    id,
    "aria-describedby": row.summary ? `${id}-about` : undefined,
    "aria-invalid": invalid || undefined,
  };
  if (row.type === "bool") {
    return (
      <span class="switch">
        <input
          {...shared}
          type="checkbox"
          role="switch"
          checked={isOn(row)}
          onChange={(event) => commit(String(event.currentTarget.checked))}
        />
      </span>
    );
  }
  if (row.choices.length > 0 && row.type !== "list") {
    const choose = (chosen: string) => {
      write(chosen);
      commit(chosen);
    };
    const choices = row.choices.includes(text) ? row.choices : [text, ...row.choices];
    return (
      <Select
        {...shared}
        value={text}
        change={choose}
        options={choices.map((choice) => ({ value: choice, label: visibleLine(choice) || "(none)" }))}
      />
    );
  }
  if (row.type === "list") {
    return (
      <textarea
        {...shared}
        class="input mono"
        rows={Math.min(Math.max(text.split("\n").length, 2), 8)}
        placeholder="One per line"
        spellcheck={false}
        value={text}
        onInput={(event) => write(event.currentTarget.value)}
        onBlur={() => commit(text)}
      />
    );
  }
  const isNumber = row.type !== "str";
  return (
    <input
      {...shared}
      class="input"
      inputMode={isNumber ? (row.type === "int" ? "numeric" : "decimal") : undefined}
      spellcheck={false}
      value={text}
      onInput={(event) => write(event.currentTarget.value)}
      onBlur={() => commit(text)}
      onKeyDown={(event) => event.key === "Enter" && commit(text)}
    />
  );
}
