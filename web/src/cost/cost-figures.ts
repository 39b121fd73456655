/** Rows of the cost page. Amounts come from the manager; here they are only laid out. */
import { money } from "../format";
import type { CostRow } from "../protocol";

const NOTHING: CostRow = { name: "", session_id: "", tokens_in: 0, tokens_out: 0, cost: 0 };

export interface BarRow {
  row: CostRow;
  /** Percent of the largest row. */
  share: number;
}

/** Bars show dollars, or tokens if no row has a price. */
export function barsOf(rows: readonly CostRow[]): BarRow[] {
  const priced = rows.some((row) => row.cost);
  const size = (row: CostRow) => (priced ? (row.cost ?? 0) : row.tokens_in + row.tokens_out);
  const largest = Math.max(...rows.map(size), 0);
  return rows.map((row) => ({ row, share: largest ? Math.round((100 * size(row)) / largest) : 0 }));
}

export function totalOf(rows: readonly CostRow[]): CostRow {
  const costs = rows.flatMap((row) => row.cost ?? []);
  const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0);
  return {
    ...NOTHING,
    name: "Total",
    tokens_in: sum(rows.map((row) => row.tokens_in)),
    tokens_out: sum(rows.map((row) => row.tokens_out)),
    cost: costs.length ? sum(costs) : null,
  };
}

/** Days with usage, and the days between them. */
export function daysWithGaps(days: readonly CostRow[], since: string, today: string): CostRow[] {
  if (!days.length) return [];
  const known = new Map(days.map((row) => [row.name, row]));
  const first = days[0]!.name > since ? days[0]!.name : since;
  const all: CostRow[] = [];
  for (let day = first; day <= today && all.length < 400; day = dayAfter(day)) {
    all.push(known.get(day) ?? { ...NOTHING, name: day });
  }
  return all;
}

function dayAfter(day: string): string {
  const next = new Date(`${day}T12:00:00Z`);
  next.setUTCDate(next.getUTCDate() + 1);
  return next.toISOString().slice(0, 10);
}

export function dayWords(day: string): string {
  const date = new Date(`${day}T12:00:00`);
  return date.toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short" });
}

export function budgetWords({ cost, tokens_in }: CostRow, budget: number): string {
  if (cost === null && tokens_in) return `${money(budget)}; the models used have no known price.`;
  const used = cost ?? 0;
  const percent = Math.round((100 * used) / budget);
  return used >= budget
    ? `The budget of ${money(budget)} is used up (${percent}%).`
    : `${percent}% of ${money(budget)}`;
}
