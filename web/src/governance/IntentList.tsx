/** The project's intents with their status, scope, criteria and number of changes. */
import { counted } from "../format";
import type { IntentRow } from "../protocol";
import { useRequest } from "../requests";
import { Badge, Button, Empty, Notice, type Tone } from "../ui";
import { visibleLine } from "../visible-text";
import { humanize } from "../wording";
import { Loaded } from "../ui/PageFrame";
import { usePageRefresh } from "./page-refresh";

const TONES: Readonly<Record<string, Tone>> = {
  active: "accent",
  in_progress: "accent",
  done: "good",
  completed: "good",
  blocked: "bad",
  paused: "rest",
};

export function IntentList({ trace, round }: { trace: (intent: string) => void; round: number }) {
  const intents = useRequest("list_intents", {});
  usePageRefresh(intents.reload, round);
  return (
    <Loaded of={intents} waiting="Loading intents…">
      {(rows) =>
        rows.length === 0 ? (
          <Empty icon="shield">
            <p>
              This project has no intents. Use <code>rookery intents</code> to define what agents may change, and why.
            </p>
          </Empty>
        ) : (
          <ul class="cards">
            {rows.map((intent) => (
              <Intent key={intent.id} intent={intent} trace={() => trace(intent.id)} />
            ))}
          </ul>
        )
      }
    </Loaded>
  );
}

function Intent({ intent, trace }: { intent: IntentRow; trace: () => void }) {
  return (
    <li class="card">
      <div class="line-of">
        <h2>{visibleLine(intent.name || intent.id)}</h2>
        {intent.status && (
          <Badge tone={TONES[intent.status.toLowerCase()] ?? "usual"}>{visibleLine(humanize(intent.status))}</Badge>
        )}
        {intent.name && <span class="mono quiet small">{visibleLine(intent.id)}</span>}
        <span class="grow" />
        <Button compact icon="list" onClick={trace}>
          {counted(intent.writes, "change")}
        </Button>
      </div>
      {intent.problem && (
        <Notice tone="careful" icon="alert">
          {visibleLine(intent.problem)}
        </Notice>
      )}
      <Part name="Scope" entries={intent.scope} none="No paths." mono />
      <Part name="Acceptance criteria" entries={intent.criteria} none="No criteria." />
    </li>
  );
}

function Part({ name, entries, none, mono }: { name: string; entries: readonly string[]; none: string; mono?: boolean }) {
  return (
    <div class="intent-part">
      <h3 class="quiet small">{name}</h3>
      {entries.length === 0 ? (
        <p class="quiet">{none}</p>
      ) : (
        <ul class={mono ? "intent-scope mono" : "intent-criteria"}>
          {entries.map((entry) => (
            <li key={entry}>{visibleLine(entry)}</li>
          ))}
        </ul>
      )}
    </div>
  );
}
