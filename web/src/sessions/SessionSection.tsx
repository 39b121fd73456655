import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { SessionRow } from "../protocol";
import { hrefOf, route } from "../routes";
import { versions } from "../store";
import { Button, Icon } from "../ui";
import { visibleLine } from "../visible-text";
import { commonName, queuePlaces, type SessionGroup, groupSessions } from "./session-groups";
import { SessionItem } from "./SessionItem";
import { selected, toggleSelected } from "./selection";

const SHOWN_FIRST = 100;

export function SessionSection({ title, rows, open }: { title: string; rows: SessionRow[]; open: boolean }) {
  const chosen = useSignal<boolean | null>(null);
  const most = useSignal(SHOWN_FIRST);
  const id = useId();
  if (!rows.length) return null;
  const unfolded = chosen.value ?? open;
  const places = queuePlaces(rows);
  const numbers = versions.value;
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
          {groupSessions(rows.slice(0, most.value)).map((each) => {
            const items = each.rows.map((row) => (
              <SessionItem
                key={row.session_id}
                row={row}
                here={row.session_id === here}
                place={places.get(row.session_id)}
                version={numbers.get(row.session_id)}
                selected={selected.value?.has(row.session_id)}
                select={toggleSelected}
              />
            ));
            const alone = !numbers.has(each.rows[0]!.session_id);
            return alone ? items : <VersionGroup key={each.group_id} of={each}>{items}</VersionGroup>;
          })}
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

/** The versions of one prompt, with a link to their comparison. */
function VersionGroup({ of, children }: { of: SessionGroup; children: ComponentChildren }) {
  const to = { page: "versions", group_id: of.group_id } as const;
  const here = route.value.page === "versions" && route.value.group_id === of.group_id;
  return (
    <li class="version-group">
      <a class="version-group-head" href={hrefOf(to)} aria-current={here ? "page" : undefined}>
        <Icon name="columns" />
        <span class="cut grow">{visibleLine(commonName(of.rows)) || "Untitled"}</span>
        <span class="version-compare">Compare versions</span>
      </a>
      <ul>{children}</ul>
    </li>
  );
}
