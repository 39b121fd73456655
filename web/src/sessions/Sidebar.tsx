import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { alertsOn, switchAlerts } from "../alerts";
import { counted, folderName } from "../format";
import { useKeys } from "../keys";
import { PHONE, useMedia } from "../media";
import { now } from "../now";
import { go, hrefOf, route } from "../routes";
import { inbox, listLoaded, overview, sessions } from "../store";
import { chooseTheme, shownTheme } from "../theme";
import { Button, Count, Empty, Icon, type IconName, LinkButton, Spinner, Toasts, toast } from "../ui";
import { visibleLine } from "../visible-text";
import { BulkBar } from "./BulkBar";
import { ConversationHits } from "./ConversationHits";
import { selected, selectNone, stopSelecting } from "./selection";
import { displayOrder, searchSessions, sectionsOf, tagsOf } from "./session-groups";
import { SessionSection } from "./SessionSection";
import { TagDialog } from "./TagDialog";
import "./sidebar.css";

export function Sidebar({ showHelp }: { showHelp: () => void }) {
  const words = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  const phone = useMedia(PHONE);
  const alone = phone && route.value.page === "home";
  useKeys({ "/": () => field.current?.focus() });
  return (
    <div class="side" role={alone ? "main" : "complementary"} aria-label="Sessions" {...(alone && { id: "main", tabIndex: -1 })}>
      {alone && <h1 class="spoken">Sessions</h1>}
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
        <Button
          kind="plain"
          icon="todo"
          label="Select sessions"
          aria-pressed={selected.value !== null}
          onClick={() => (selected.value ? stopSelecting() : selectNone())}
        />
      </div>
      <TagFilter words={words.value} choose={(chosen) => (words.value = chosen)} />
      <div class="side-list">
        <SessionLists words={words.value} />
      </div>
      <BulkBar words={words.value} />
      <TagDialog />
      {!phone && <Toasts />}
      <Foot showHelp={showHelp} />
    </div>
  );
}

function Head() {
  const project = overview.value?.project ?? "";
  const waiting = inbox.value.length;
  const page = route.value.page;
  return (
    <div class="side-head">
      <a class="side-brand" href={hrefOf({ page: "home" })} title={visibleLine(project)}>
        <Icon name="rook" />
        <span class="cut">{visibleLine(folderName(project)) || "rookery"}</span>
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
      <a class="button primary side-new" href={hrefOf({ page: "new" })} aria-label="New session" title="New session (c)">
        <Icon name="plus" />
        New
      </a>
    </div>
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
  if (!rows.length && !words) return <NothingListed />;
  return (
    <>
      {sectionsOf(rows, now.value).map(({ title, rows }) => (
        <SessionSection key={title} title={title} rows={rows} open={title !== "Archived" || words !== ""} />
      ))}
      {words && <ConversationHits words={words} listed={rows} />}
    </>
  );
}

/** A button for every tag; it searches for the tag. */
function TagFilter({ words, choose }: { words: string; choose: (words: string) => void }) {
  const tags = tagsOf(sessions.value);
  if (!tags.length) return null;
  return (
    <div class="side-tags" role="group" aria-label="Tags">
      {tags.map((tag) => (
        <button
          key={tag}
          type="button"
          class="filter"
          aria-pressed={words === `#${tag}`}
          onClick={() => choose(words === `#${tag}` ? "" : `#${tag}`)}
        >
          {visibleLine(tag)}
        </button>
      ))}
    </div>
  );
}

function NothingListed() {
  const phone = useMedia(PHONE);
  return (
    <Empty icon="rook">
      <p>No sessions yet.</p>
      <p class="quiet">A session is one agent at work. Start as many as you like; they run side by side.</p>
      {phone && (
        <LinkButton kind="primary" icon="plus" href={hrefOf({ page: "new" })}>
          New session
        </LinkButton>
      )}
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
    <div class="side-foot">
      <nav class="side-nav" aria-label="Project">
        <FootLink page="worktrees" icon="branch" words="Worktrees" />
        <FootLink page="governance" icon="shield" words="Governance" />
        <FootLink page="schedules" icon="clock" words="Schedules" />
        <FootLink page="cost" icon="coins" words="Cost" />
        {overview.value?.fleet && <FootLink page="fleet" icon="list" words="Fleet" />}
        <FootLink page="settings" icon="gear" words="Settings" />
      </nav>
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
          title={`At most ${limit} sessions run at once. Change it in the settings.`}
        >
          {running} of {limit} running{queued > 0 && `, ${queued} queued`}
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
    </div>
  );
}

async function toggleAlerts(): Promise<void> {
  const problem = await switchAlerts(!alertsOn.value);
  if (problem) toast(problem, "bad");
}

type FootPage = "worktrees" | "schedules" | "governance" | "cost" | "fleet" | "settings";

function FootLink(props: { page: FootPage; icon: IconName; words: string }) {
  return (
    <a
      class="button plain compact"
      href={hrefOf({ page: props.page })}
      aria-current={route.value.page === props.page ? "page" : undefined}
    >
      <Icon name={props.icon} />
      {props.words}
    </a>
  );
}
