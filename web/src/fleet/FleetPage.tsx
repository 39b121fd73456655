/** The fleet that the manager was given: its workers, queues and sessions. */
import { counted, duration } from "../format";
import { now } from "../now";
import type { FleetListing, FleetQueue, FleetSession, FleetWorker } from "../protocol";
import { useRefresh, useRequest } from "../requests";
import { hrefOf } from "../routes";
import { Badge, Button, Empty } from "../ui";
import { Loaded, PageFrame } from "../ui/PageFrame";
import { visibleLine } from "../visible-text";
import { humanize } from "../wording";
import { countsOf, doingOf, queueName, repositoryName, toneOf, workersOf } from "./fleet-words";
import "./fleet.css";

const REFRESH_EVERY = 3_000;

export default function FleetPage() {
  const fleet = useRequest("list_fleet", { most: 500 });
  useRefresh(fleet.reload, REFRESH_EVERY);
  return (
    <PageFrame
      title="Fleet"
      wide
      tools={<Button kind="plain" compact icon="retry" label="Refresh" onClick={fleet.reload} />}
    >
      <Loaded of={fleet} waiting="Loading the fleet…">
        {(answer) => (answer.workers.length || answer.sessions.length ? <Tables fleet={answer} /> : <NoFleet />)}
      </Loaded>
    </PageFrame>
  );
}

function NoFleet() {
  return (
    <Empty icon="list">
      <p>No workers yet.</p>
      <p class="quiet">
        Start one on each machine: <code>rookery worker --slots 4</code>
      </p>
    </Empty>
  );
}

function Tables({ fleet }: { fleet: FleetListing }) {
  return (
    <>
      <section aria-label="Workers">
        <h2>
          Workers <span class="quiet">{counted(workersOf(fleet.workers), "machine")}</span>
        </h2>
        <table class="fleet-table">
          <Head names={["Worker", "Labels", "State", "Session", "Last seen"]} />
          <tbody>{fleet.workers.map((each) => <WorkerRow key={each.executor} worker={each} sessions={fleet.sessions} />)}</tbody>
        </table>
      </section>
      <section aria-label="Queues">
        <h2>Queues</h2>
        <table class="fleet-table whole">
          <Head names={["Label", "Slots", "Queued", "Running", "Waiting"]} />
          <tbody>{fleet.queues.map((each) => <QueueRow key={each.label} queue={each} />)}</tbody>
        </table>
      </section>
      <section aria-label="Sessions">
        <h2>
          Sessions <span class="quiet">{countsOf(fleet)}</span>
        </h2>
        <table class="fleet-table">
          <Head names={["Session", "State", "Repository", "Worker", "Started"]} />
          <tbody>{fleet.sessions.map((each) => <SessionLine key={each.session_id} session={each} />)}</tbody>
        </table>
      </section>
    </>
  );
}

function Head({ names }: { names: readonly string[] }) {
  return (
    <thead>
      <tr>{names.map((name) => <th key={name} scope="col">{name}</th>)}</tr>
    </thead>
  );
}

function WorkerRow({ worker, sessions }: { worker: FleetWorker; sessions: readonly FleetSession[] }) {
  return (
    <tr>
      <th scope="row" class="cut" title={worker.executor}>
        {visibleLine(worker.executor)}
      </th>
      <td class="cut">{worker.labels.map(visibleLine).join(", ")}</td>
      <td>{humanize(doingOf(worker, sessions))}</td>
      <td class="cut">{worker.session && <SessionLink id={worker.session} words={worker.session} />}</td>
      <td>{worker.state !== "unreadable" && `${duration(worker.seconds * 1000)} ago`}</td>
    </tr>
  );
}

function QueueRow({ queue }: { queue: FleetQueue }) {
  return (
    <tr>
      <th scope="row" class="cut">
        {visibleLine(queueName(queue))}
      </th>
      <td>{queue.slots}</td>
      <td>{queue.queued}</td>
      <td>{queue.running}</td>
      <td>{queue.waiting}</td>
    </tr>
  );
}

function SessionLine({ session }: { session: FleetSession }) {
  return (
    <tr>
      <th scope="row" class="cut">
        <SessionLink id={session.session_id} words={session.text || session.session_id} />
      </th>
      <td>
        <Badge tone={toneOf(session.state)}>{humanize(session.state)}</Badge>
      </td>
      <td class="cut" title={`${session.repo} ${session.ref}`}>
        {visibleLine(repositoryName(session.repo))} {visibleLine(session.ref)}
      </td>
      <td class="cut">{visibleLine(session.worker)}</td>
      <td>{session.state !== "unreadable" && `${duration(Math.max(0, now.value - session.created))} ago`}</td>
    </tr>
  );
}

function SessionLink({ id, words }: { id: string; words: string }) {
  return <a href={hrefOf({ page: "fleet_session", session_id: id })}>{visibleLine(words)}</a>;
}
