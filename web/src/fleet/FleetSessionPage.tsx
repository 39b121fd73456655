/** A session of the fleet: what it does, and the answer to what it asks. */
import { useEffect, useMemo } from "preact/hooks";
import { attempt } from "../attempt";
import type { FleetSession } from "../protocol";
import { useRefresh, useRequest } from "../requests";
import { hrefOf } from "../routes";
import { followFleet } from "../store";
import { Transcript } from "../transcript/Transcript";
import { Badge, Button, confirm, LinkButton, Notice, Problem } from "../ui";
import { visibleLine, visibleText } from "../visible-text";
import { humanize } from "../wording";
import { FleetQuestion } from "./FleetQuestion";
import { isOver, queuedWords, toneOf } from "./fleet-words";
import "./fleet.css";

const REFRESH_EVERY = 2_000;

export default function FleetSessionPage({ session_id }: { session_id: string }) {
  const fleet = useRequest("list_fleet", { most: 1000 });
  useRefresh(fleet.reload, REFRESH_EVERY);
  const task = useMemo(() => followFleet(session_id), [session_id]);
  useEffect(() => task.stop, [task]);
  const session = fleet.answer?.sessions.find((each) => each.session_id === session_id);
  const ended = task.view.ended.value;
  return (
    <div class="session-column">
      <header class="session-head">
        <div class="session-head-line">
          <LinkButton kind="plain" icon="left" label="Back to the fleet" href={hrefOf({ page: "fleet" })} />
          <h1 class="session-title cut" title={session?.text}>
            {visibleLine(session?.text || session_id)}
          </h1>
          {session && <Badge tone={toneOf(session.state)}>{humanize(session.state)}</Badge>}
          <span class="quiet small cut">{visibleLine(session?.worker ?? "")}</span>
          {session && !isOver(session) && <CancelButton session={session} changed={fleet.reload} />}
        </div>
      </header>
      <Transcript task={task} session_id={session_id}>
        <Problem words={visibleText(ended || fleet.problem)} />
        {session?.state === "queued" && <Notice icon="clock">{visibleLine(queuedWords(session))}</Notice>}
        {session?.reason && <Notice tone="careful">{visibleText(session.reason)}</Notice>}
      </Transcript>
      {session?.state === "waiting" && <FleetQuestion session={session} rows={task.view.rows.value} changed={fleet.reload} />}
    </div>
  );
}

function CancelButton({ session, changed }: { session: FleetSession; changed: () => void }) {
  const cancel = async () => {
    const sure = await confirm({
      title: "Cancel this session?",
      words: "It ends on its worker. Its files stay as they are at its last checkpoint.",
      yes: "Cancel session",
      danger: true,
    });
    if (sure && (await attempt("cancel_fleet_session", { id: session.session_id }))) changed();
  };
  return (
    <Button compact icon="stop" onClick={() => void cancel()}>
      Cancel
    </Button>
  );
}
