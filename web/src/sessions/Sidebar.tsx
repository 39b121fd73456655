import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { alertsOn, switchAlerts } from "../alerts";
import { counted } from "../format";
import { useKeys } from "../keys";
import { PHONE, useMedia } from "../media";
import { go, hrefOf, route } from "../routes";
import { inbox, listLoaded, overview, sessions } from "../store";
import { chooseTheme, shownTheme } from "../theme";
import { Button, Count, Empty, Icon, Spinner, Toasts, toast } from "../ui";
import { displayOrder, searchSessions, sectionsOf } from "./session-groups";
import { SessionSection } from "./SessionSection";
import "./sidebar.css";

export function Sidebar({ showHelp }: { showHelp: () => void }) {
  const words = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  const phone = useMedia(PHONE);
  useKeys({ "/": () => field.current?.focus() });
  return (
    <aside class="side" aria-label="Sessions">
      <Head />
      <div class="side-search">
        <Icon name="search" />
        <input
          ref={field}
          class="input"
          type="search"
          placeholder="Search sessions"
          aria-label="Search sessions"
          value={words.value}
          onInput={(event) => (words.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") {
              event.preventDefault();
              words.value = "";
              event.currentTarget.blur();
            }
            const [first] = event.key === "Enter" ? displayOrder(sessions.value, words.value) : [];
            if (first) go({ page: "session", session_id: first.session_id });
          }}
        />
      </div>
      <div class="side-list">
        <SessionLists words={words.value} />
      </div>
      {!phone && <Toasts />}
      <Foot showHelp={showHelp} />
    </aside>
  );
}

function Head() {
  const project = overview.value?.project ?? "";
  const waiting = inbox.value.length;
  const page = route.value.page;
  return (
    <header class="side-head">
      <a class="side-brand" href={hrefOf({ page: "home" })} title={project}>
        <Icon name="rook" />
        <span class="cut">{project.split(/[\\/]/).filter(Boolean).pop() || "rookery"}</span>
      </a>
      <a
        class={`button plain side-inbox ${waiting ? "full" : ""}`}
        href={hrefOf({ page: "inbox" })}
        aria-current={page === "inbox" ? "page" : undefined}
        title="Inbox (g i)"
      >
        <Icon name="inbox" />
        <span>Inbox</span>
        <Count of={waiting} label="waiting" />
      </a>
      <a class="button primary square side-new" href={hrefOf({ page: "new" })} aria-label="New session" title="New session (c)">
        <Icon name="plus" />
      </a>
    </header>
  );
}

function SessionLists({ words }: { words: string }) {
  if (!listLoaded.value) {
    return (
      <Empty icon="list">
        <Spinner label="Loading sessions" />
      </Empty>
    );
  }
  const rows = searchSessions(sessions.value, words);
  const { active, history, archived } = sectionsOf(rows);
  if (!rows.length) return <NothingListed searched={words !== ""} />;
  return (
    <>
      <SessionSection title="Active" rows={active} open />
      <SessionSection title="History" rows={history} open />
      <SessionSection title="Archived" rows={archived} open={words !== ""} />
    </>
  );
}

function NothingListed({ searched }: { searched: boolean }) {
  if (searched) return <Empty icon="search">No sessions match.</Empty>;
  return (
    <Empty icon="rook">
      <p>No sessions yet.</p>
      <a class="button primary" href={hrefOf({ page: "new" })}>
        <Icon name="plus" /> New session
      </a>
    </Empty>
  );
}

function Foot({ showHelp }: { showHelp: () => void }) {
  const dark = shownTheme.value === "dark";
  const limit = overview.value?.running_limit;
  const blocked = overview.value?.blocked_requests ?? 0;
  const running = sessions.value.filter((row) => row.flags.show_spinner && !row.queued).length;
  const queued = sessions.value.filter((row) => row.queued).length;
  return (
    <footer class="side-foot">
      <FootLink page="worktrees" icon="branch" words="Worktrees" />
      <FootLink page="governance" icon="shield" words="Governance" />
      <FootLink page="settings" icon="gear" words="Settings" />
      <span class="grow" />
      {blocked > 0 && (
        <span
          class="small side-blocked"
          title={`Blocked ${counted(blocked, "request")} without a valid link, for example from a tab opened before a restart.`}
        >
          <Icon name="shield" /> {blocked}
          <span class="spoken"> blocked requests</span>
        </span>
      )}
      {limit !== undefined && (
        <span
          class="small quiet"
          title={`${running} of at most ${limit} sessions running${queued ? `, ${queued} queued` : ""}`}
        >
          {running}/{limit}
          {queued > 0 && ` +${queued}`}
        </span>
      )}
      <Button
        kind="plain"
        compact
        icon={alertsOn.value ? "bell" : "bellOff"}
        label={alertsOn.value ? "Notifications are on" : "Notify me when a session needs me"}
        aria-pressed={alertsOn.value}
        onClick={() => void toggleAlerts()}
      />
      <Button
        kind="plain"
        compact
        icon={dark ? "sun" : "moon"}
        label={dark ? "Light theme" : "Dark theme"}
        onClick={() => chooseTheme(dark ? "light" : "dark")}
      />
      <Button kind="plain" compact icon="keyboard" label="Keyboard shortcuts (?)" onClick={showHelp} />
    </footer>
  );
}

async function toggleAlerts(): Promise<void> {
  const problem = await switchAlerts(!alertsOn.value);
  if (problem) toast(problem, "bad");
}

function FootLink(props: { page: "worktrees" | "governance" | "settings"; icon: "branch" | "shield" | "gear"; words: string }) {
  return (
    <a
      class="button plain compact square"
      href={hrefOf({ page: props.page })}
      aria-label={props.words}
      title={props.words}
      aria-current={route.value.page === props.page ? "page" : undefined}
    >
      <Icon name={props.icon} />
    </a>
  );
}
