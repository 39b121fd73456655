/** Blames a file line by line: the record, intent, criterion and approver of each line. */
import { useEffect, useState } from "preact/hooks";

import { request } from "../connection";
import { moment } from "../format";
import type { BlamedLine } from "../protocol";
import { useRequest } from "../requests";
import { sessions } from "../store";
import { Button, Empty, Field } from "../ui";
import { Combobox } from "../ui/combobox";
import { Select } from "../ui/select";
import { visibleLine, visibleText } from "../visible-text";
import { Loaded } from "../ui/PageFrame";
import { usePageRefresh } from "./page-refresh";
import { type Part, chain, coverage, parts } from "./blame-parts";

const DEBOUNCE = 200;

export function BlameView({
  round,
  path,
  choose,
  trace,
}: {
  round: number;
  path: string;
  choose: (path: string) => void;
  trace: (intent: string) => void;
}) {
  const [typed, setTyped] = useState(path);
  const [sessionId, setSessionId] = useState("");
  const paths = usePaths(typed, sessionId);
  const worktrees = sessions.value.filter((row) => row.worktree_id);
  return (
    <>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          choose(typed.trim());
        }}
      >
        <Field label="File">
          <Combobox
            value={typed}
            change={setTyped}
            placeholder="File path"
            options={paths.map((path) => ({ value: path, label: visibleLine(path) }))}
          />
        </Field>
        {worktrees.length > 0 && (
          <Field label="Checkout">
            <Select
              value={sessionId}
              change={setSessionId}
              options={[
                { value: "", label: "Project" },
                ...worktrees.map((row) => ({ value: row.session_id, label: visibleLine(row.name) || "Untitled" })),
              ]}
            />
          </Field>
        )}
        <Button type="submit" kind="primary" disabled={typed.trim() === ""}>
          Show
        </Button>
      </form>
      {path ? (
        <Blame key={`${sessionId} ${path}`} round={round} path={path} sessionId={sessionId} trace={trace} />
      ) : (
        <Empty icon="file">
          <p>Enter a file path to see who wrote each line, and for which intent.</p>
        </Empty>
      )}
    </>
  );
}

/** Suggested paths. The user can also type any other path. */
function usePaths(letters: string, sessionId: string): readonly string[] {
  const [paths, setPaths] = useState<readonly string[]>([]);
  useEffect(() => {
    if (letters.trim() === "") return setPaths([]);
    let active = true;
    const timer = setTimeout(() => {
      request("find_paths", { letters: letters.trim(), session_id: sessionId })
        .then((found) => active && setPaths(found.filter((each) => !each.folder).map((each) => each.path)))
        .catch(() => active && setPaths([]));
    }, DEBOUNCE);
    return () => {
      active = false;
      clearTimeout(timer);
    };
  }, [letters, sessionId]);
  return paths;
}

function Blame(props: { round: number; path: string; sessionId: string; trace: (intent: string) => void }) {
  const { round, path, sessionId, trace } = props;
  const blamed = useRequest("blame_file", { path, session_id: sessionId });
  usePageRefresh(blamed.reload, round);
  return (
    <Loaded of={blamed} waiting="Loading blame…">
      {(lines) =>
        lines.length === 0 ? (
          <Empty icon="file">
            <p>This file is empty.</p>
          </Empty>
        ) : (
          <>
            <p class="quiet small">{coverage(lines)} are in the ledger. The rest were written without a record.</p>
            <ol class="blame" aria-label={`Lines of ${visibleLine(path)}`}>
              {parts(lines).map((part) => (
                <BlamedPart key={part.from} part={part} trace={trace} />
              ))}
            </ol>
          </>
        )
      }
    </Loaded>
  );
}

function BlamedPart({ part, trace }: { part: Part; trace: (intent: string) => void }) {
  return (
    <li class="blame-part">
      <div class="blame-by">{part.by ? <WrittenBy by={part.by} trace={trace} /> : <span class="quiet">Not recorded</span>}</div>
      <table class="blame-lines">
        <tbody>
          {part.lines.map((each) => (
            <tr key={each.line}>
              <td class="blame-number">{each.line}</td>
              <td>
                <code>{visibleText(each.text)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </li>
  );
}

function WrittenBy({ by, trace }: { by: BlamedLine; trace: (intent: string) => void }) {
  return (
    <details>
      <summary>
        <strong>{visibleLine(by.intent || by.tool || by.record_id)}</strong>
        {by.approved_by && <span class="quiet"> approved by {visibleLine(by.approved_by)}</span>}
        {by.when > 0 && <div class="quiet">{moment(by.when)}</div>}
      </summary>
      <dl class="blame-chain">
        {chain(by).map(({ name, text }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{visibleLine(text)}</dd>
          </div>
        ))}
      </dl>
      {by.intent && (
        <Button compact kind="plain" icon="list" onClick={() => trace(by.intent)}>
          Show trace
        </Button>
      )}
    </details>
  );
}
