/** The governance page: intents, trace and blame. */
import { useState } from "preact/hooks";

import { Button, Tabs } from "../ui";
import { PageFrame } from "../ui/PageFrame";
import { BlameView } from "./BlameView";
import { IntentList } from "./IntentList";
import { TraceList } from "./TraceList";
import { EVERYTHING, type TraceFilter } from "./trace-filter";
import "./governance.css";

type View = "intents" | "trace" | "blame";

const TABS: { id: View; words: string }[] = [
  { id: "intents", words: "Intents" },
  { id: "trace", words: "Trace" },
  { id: "blame", words: "Blame" },
];

export default function GovernancePage() {
  const [view, setView] = useState<View>("intents");
  const [filter, setFilter] = useState<TraceFilter>(EVERYTHING);
  const [path, setPath] = useState("");
  const [round, setRound] = useState(0);
  const trace = (intent: string) => {
    setFilter({ ...EVERYTHING, intent });
    setView("trace");
  };
  const blame = (file: string) => {
    setPath(file);
    setView("blame");
  };
  return (
    <PageFrame
      title="Governance"
      tools={<Button kind="plain" icon="retry" label="Refresh" onClick={() => setRound((was) => was + 1)} />}
    >
      <Tabs tabs={TABS} chosen={view} choose={setView} label="Governance">
        <div class="sheet">
          {view === "intents" && <IntentList trace={trace} round={round} />}
          {view === "trace" && <TraceList round={round} filter={filter} change={setFilter} blame={blame} />}
          {view === "blame" && <BlameView round={round} path={path} choose={setPath} trace={trace} />}
        </div>
      </Tabs>
    </PageFrame>
  );
}
