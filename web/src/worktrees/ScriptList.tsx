/** The project's scripts for its worktrees. Each runs only after the user has allowed its content. */
import { useState } from "preact/hooks";

import { request } from "../connection";
import type { ScriptRow } from "../protocol";
import { type RequestState, useAction } from "../requests";
import { Badge, Button, toastError } from "../ui";
import { commandText, visibleLine } from "../visible-text";
import { Loaded } from "../ui/PageFrame";
import { toastDone } from "./worktree-actions";

export const SCRIPTS = "scripts-of-this-project";

const ABOUT: Readonly<Record<string, string>> = {
  "setup-script": "Prepares each new worktree.",
  "run-script": "Starts the program in a worktree, when you choose “Run script”.",
};

export function ScriptList({ scripts }: { scripts: RequestState<readonly ScriptRow[]> }) {
  return (
    <section class="cards" aria-labelledby={SCRIPTS}>
      <h2 id={SCRIPTS} tabIndex={-1}>
        Project scripts
      </h2>
      <p class="quiet small">
        A project can have a script that prepares new worktrees and one that starts its program. Each runs only after you
        allow its exact content. If it changes, you must allow it again.
      </p>
      <Loaded of={scripts} waiting="Loading scripts…">
        {(rows) =>
          rows.length === 0 ? (
            <p class="quiet">
              No scripts. Add <code>.rookery/setup-script</code> or <code>.rookery/run-script</code>.
            </p>
          ) : (
            <ul class="cards">
              {rows.map((row) => (
                <Script key={row.name} row={row} changed={scripts.reload} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}

function Script({ row, changed }: { row: ScriptRow; changed: () => void }) {
  const action = useAction(toastError);
  const [open, setOpen] = useState(!row.agreed);
  const name = visibleLine(row.name);
  const agree = () =>
    action.run(async () => {
      toastDone(await request("agree_script", { digest: row.digest }), `Allowed ${name}.`);
      changed();
    });
  return (
    <li class="card" aria-label={name}>
      <div class="line-of">
        <h3>{name}</h3>
        {row.agreed ? (
          <Badge tone="good" icon="check">
            Allowed
          </Badge>
        ) : (
          <Badge tone="careful" icon="alert">
            Not allowed yet
          </Badge>
        )}
        <span class="quiet small mono cut">{visibleLine(row.path)}</span>
        <span class="grow" />
        <Button compact kind="plain" icon={open ? "down" : "right"} aria-expanded={open} onClick={() => setOpen(!open)}>
          Content
        </Button>
      </div>
      {ABOUT[row.name] && <p class="quiet small">{ABOUT[row.name]}</p>}
      {open && (
        <pre class="script-text" tabIndex={0} aria-label={`Content of ${name}`}>
          {commandText(row.text)}
        </pre>
      )}
      {!row.agreed && (
        <div>
          <Button kind="primary" icon="check" disabled={!open} busy={action.busy} onClick={agree}>
            Allow it to run
          </Button>
        </div>
      )}
    </li>
  );
}
