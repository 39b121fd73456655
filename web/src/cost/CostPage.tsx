/** What sessions cost, per day, model, session and project, and how much of the budget is used. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { attempt } from "../attempt";
import { money, tokens } from "../format";
import type { Costs, CostRow } from "../protocol";
import { useRequest } from "../requests";
import { hrefOf } from "../routes";
import { Button, Empty, Field, LinkButton } from "../ui";
import { Loaded, PageFrame } from "../ui/PageFrame";
import { visibleLine } from "../visible-text";
import { type BarRow, barsOf, budgetWords, dayWords, daysWithGaps, totalOf } from "./cost-figures";
import "./cost.css";

const SPANS = [7, 30, 90] as const;

export default function CostPage() {
  const [days, setDays] = useState<number>(30);
  const costs = useRequest("read_costs", { days });
  return (
    <PageFrame
      title="Cost"
      tools={
        <div class="filters" role="group" aria-label="Time span">
          {SPANS.map((span) => (
            <button key={span} type="button" class="filter" aria-pressed={span === days} onClick={() => setDays(span)}>
              {span} days
            </button>
          ))}
          <Button kind="plain" compact icon="retry" label="Refresh" onClick={costs.reload} />
        </div>
      }
    >
      <Loaded of={costs} waiting="Adding up costs">
        {(answer) => (
          <>
            <Budget costs={answer} changed={costs.reload} />
            {answer.projects.length ? <Tables costs={answer} /> : <NothingUsed />}
          </>
        )}
      </Loaded>
    </PageFrame>
  );
}

function Budget({ costs, changed }: { costs: Costs; changed: () => void }) {
  const { today, daily_budget } = costs;
  const [words, setWords] = useState(daily_budget ? String(daily_budget) : "");
  const save = async () => {
    const value = words.trim() ? JSON.stringify(Number(words)) : null;
    if (await attempt("change_setting", { key: "manager.daily_budget", value })) changed();
  };
  return (
    <section class="card cost-budget" aria-label="Budget">
      <div>
        <div class="quiet small">Today, all projects</div>
        <div class="cost-today">{amount(today)}</div>
        {!isPriced(today) && <div class="quiet small">No price is known for these models.</div>}
        {daily_budget > 0 && (
          <>
            <meter
              class="cost-meter"
              aria-label="Daily budget used"
              min={0}
              max={daily_budget}
              high={daily_budget * 0.8}
              value={today.cost ?? 0}
            />
            <div class="small">{budgetWords(today, daily_budget)}</div>
          </>
        )}
      </div>
      <form
        class="cost-form"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Field label="Daily budget in dollars" hint="A bar shows how much is used. Sessions are not stopped.">
          <input
            class="input"
            type="number"
            min="0"
            step="any"
            inputMode="decimal"
            value={words}
            onInput={(event) => setWords(event.currentTarget.value)}
          />
        </Field>
        <Button type="submit">Save</Button>
      </form>
    </section>
  );
}

function Tables({ costs }: { costs: Costs }) {
  const days = daysWithGaps(costs.days, costs.since, costs.today.name);
  return (
    <>
      <Table title="Days" head="Day" rows={[...days].reverse()} nameOf={(row) => dayWords(row.name)} />
      <Table title="Models" head="Model" rows={costs.models} nameOf={(row) => visibleLine(row.name) || "Unknown"} />
      <Table
        title="Sessions"
        head="Session"
        rows={costs.sessions}
        nameOf={(row) => <a href={hrefOf({ page: "session", session_id: row.session_id })}>{visibleLine(row.name)}</a>}
      />
      <Table title="Projects" head="Project" rows={costs.projects} nameOf={(row) => visibleLine(row.name)} />
    </>
  );
}

function Table(props: {
  title: string;
  head: string;
  rows: readonly CostRow[];
  nameOf: (row: CostRow) => ComponentChildren;
}) {
  const { title, head, rows, nameOf } = props;
  if (!rows.length) return null;
  return (
    <section class="cost-part">
      <h2>
        {title} <span class="quiet">{amount(totalOf(rows))}</span>
      </h2>
      <table class="cost-table">
        <thead>
          <tr>
            <th scope="col">{head}</th>
            <th scope="col">
              <span class="spoken">Share</span>
            </th>
            <th scope="col" class="number">
              Tokens
            </th>
            <th scope="col" class="number">
              Cost
            </th>
          </tr>
        </thead>
        <tbody>
          {barsOf(rows).map(({ row, share }: BarRow) => (
            <tr key={row.session_id || row.name}>
              <th scope="row" class="cut">
                {nameOf(row)}
              </th>
              <td class="cost-share">
                <svg class="cost-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={share} height="6" rx="1" />
                </svg>
              </td>
              <td class="number">{tokens(row.tokens_in + row.tokens_out)}</td>
              <td class="number">{isPriced(row) ? money(row.cost ?? 0) : <span class="quiet">unknown</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function isPriced(row: CostRow): boolean {
  return row.cost != null || row.tokens_in + row.tokens_out === 0;
}

/** In dollars, or in tokens where no price is known. */
function amount(row: CostRow): string {
  return isPriced(row) ? money(row.cost ?? 0) : `${tokens(row.tokens_in + row.tokens_out)} tokens`;
}

function NothingUsed() {
  return (
    <Empty icon="coins">
      <p>No usage in this time span.</p>
      <p class="quiet">Tokens and dollars of every request are added up here, from the journals of your sessions.</p>
      <LinkButton kind="primary" icon="plus" href={hrefOf({ page: "new" })}>
        New session
      </LinkButton>
    </Empty>
  );
}
