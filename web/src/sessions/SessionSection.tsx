import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { SessionRow } from "../protocol";
import { route } from "../routes";
import { Button, Icon } from "../ui";
import { queuePlaces } from "./finding";
import { SessionItem } from "./SessionItem";

const SHOWN_FIRST = 100;

export function SessionSection({ title, rows, open }: { title: string; rows: SessionRow[]; open: boolean }) {
  const chosen = useSignal<boolean | null>(null);
  const most = useSignal(SHOWN_FIRST);
  const id = useId();
  if (!rows.length) return null;
  const unfolded = chosen.value ?? open;
  const places = queuePlaces(rows);
  const here = "session_id" in route.value ? route.value.session_id : "";
  return (
    <section class="side-section" aria-labelledby={id}>
      <h2>
        <button
          type="button"
          id={id}
          class="side-section-head"
          aria-expanded={unfolded}
          onClick={() => (chosen.value = !unfolded)}
        >
          <Icon name={unfolded ? "down" : "right"} />
          {title} <span class="quiet">{rows.length}</span>
        </button>
      </h2>
      {unfolded && (
        <ul>
          {rows.slice(0, most.value).map((row) => (
            <SessionItem key={row.session_id} row={row} here={row.session_id === here} place={places.get(row.session_id)} />
          ))}
        </ul>
      )}
      {unfolded && rows.length > most.value && (
        <Button kind="plain" compact onClick={() => (most.value += SHOWN_FIRST)}>
          Show more
        </Button>
      )}
    </section>
  );
}
