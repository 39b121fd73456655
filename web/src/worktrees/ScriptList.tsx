/** The programs that the project brings for its worktrees. Each is run only once it was looked at. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { ScriptRow } from "../protocol";
import { type Asked, useDoing } from "../review/answers";
import { Badge, Button, complain } from "../ui";
import { line, plain } from "../visible";
import { Answer } from "./Sheet";
import { tellDone } from "./acts";

export const SCRIPTS = "scripts-of-this-project";

const ABOUT: Readonly<Record<string, string>> = {
  "setup-script": "Prepares each new worktree.",
  "run-script": "Runs what is in a worktree: “Run script” starts it there.",
};

export function ScriptList({ scripts }: { scripts: Asked<readonly ScriptRow[]> }) {
  return (
    <section class="cards" aria-labelledby={SCRIPTS}>
      <h2 id={SCRIPTS} tabIndex={-1}>
        Scripts of this project
      </h2>
      <p class="quiet small">
        A project may bring a program that prepares worktrees and one that runs what is in them. Each runs only after you
        have agreed to its text, and no longer when a letter of it has changed.
      </p>
      <Answer of={scripts} waiting="Looking for scripts…">
        {(rows) =>
          rows.length === 0 ? (
            <p class="quiet">
              It brings none. They would be <code>.rookery/setup-script</code> and <code>.rookery/run-script</code>.
            </p>
          ) : (
            <ul class="cards">
              {rows.map((row) => (
                <Script key={row.name} row={row} changed={scripts.again} />
              ))}
            </ul>
          )
        }
      </Answer>
    </section>
  );
}

function Script({ row, changed }: { row: ScriptRow; changed: () => void }) {
  const doing = useDoing(complain);
  const [open, setOpen] = useState(!row.agreed);
  const name = line(row.name);
  const agree = () =>
    doing.run(async () => {
      tellDone(await request("agree_script", { digest: row.digest }), `You have agreed to ${name}.`);
      changed();
    });
  return (
    <li class="card" aria-label={name}>
      <div class="line-of">
        <h3>{name}</h3>
        {row.agreed ? (
          <Badge tone="good" icon="check">
            Agreed to
          </Badge>
        ) : (
          <Badge tone="careful" icon="alert">
            Not agreed to yet
          </Badge>
        )}
        <span class="quiet small mono cut">{line(row.path)}</span>
        <span class="grow" />
        <Button compact kind="plain" icon={open ? "down" : "right"} aria-expanded={open} onClick={() => setOpen(!open)}>
          Its text
        </Button>
      </div>
      {ABOUT[row.name] && <p class="quiet small">{ABOUT[row.name]}</p>}
      {open && (
        <pre class="script-text" tabIndex={0} aria-label={`Text of ${name}`}>
          {plain(row.text)}
        </pre>
      )}
      {!row.agreed && (
        <div>
          <Button kind="primary" icon="check" disabled={!open} busy={doing.busy} onClick={agree}>
            I have read it: it may run
          </Button>
        </div>
      )}
    </li>
  );
}
