import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { connection } from "../connection";
import { sortInbox } from "../inbox/inbox-order";
import { type Keys, useKeys } from "../keys";
import { PHONE, useMedia } from "../media";
import { go, hrefIn, hrefOf, route } from "../routes";
import { displayOrder } from "../sessions/session-groups";
import { Sidebar } from "../sessions/Sidebar";
import { inbox, overview, sessions } from "../store";
import { chooseTheme, shownTheme } from "../theme";
import { Confirmation, Count, Icon, type IconName, Notice, Toasts } from "../ui";
import { visibleLine } from "../visible-text";
import { ProjectStrip } from "./Projects";
import { ShortcutHelp } from "./ShortcutHelp";
import { Trust } from "./Trust";
import "./shell.css";

export function Shell({ children }: { children: ComponentChildren }) {
  const help = useSignal(false);
  const phone = useMedia(PHONE);
  useKeys(keysAnywhere(() => (help.value = true)));
  return (
    <div class={`shell at-${route.value.page}`}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <div class="above-all">
        <ConnectionBanner />
        <ProjectStrip />
        {phone && <Toasts />}
      </div>
      <Sidebar showHelp={() => (help.value = true)} />
      <main class="main" id={phone && route.value.page === "home" ? undefined : "main"} tabIndex={-1}>
        <Trust />
        <PageNotices />
        {children}
      </main>
      <BottomBar />
      {help.value && <ShortcutHelp close={() => (help.value = false)} />}
      <Confirmation />
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function ConnectionBanner() {
  const status = connection.status.value;
  const problem = visibleLine(connection.problem.value);
  return (
    <div role="status">
      {status === "lost" && (
        <div class="banner">
          <span class="spinner" />
          <span class="grow">
            {problem || (
              <>
                Cannot reach the manager; reconnecting. Sessions keep running. If the manager was stopped, run{" "}
                <code>rookery manager</code>: this page then connects again.
              </>
            )}
          </span>
          <button type="button" class="banner-button" onClick={() => connection.nudge()}>
            Reconnect now
          </button>
        </div>
      )}
      {connection.silent.value && status !== "lost" && (
        <div class="banner">
          <span class="spinner" />
          <span class="grow">
            The manager is not responding. This page may be out of date. Sessions keep running, and what you do here takes
            effect when the manager responds.
          </span>
        </div>
      )}
    </div>
  );
}

/** Notices that apply to the whole page. */
function PageNotices() {
  const { read_only = "", notices = [] } = overview.value ?? {};
  if (!read_only && !notices.length) return null;
  return (
    <div class="reservations">
      {read_only && (
        <Notice tone="careful" icon="eye">
          {read_only}
        </Notice>
      )}
      {notices.map((notice) => (
        <Notice key={notice} tone="careful" icon="alert">
          {notice}
        </Notice>
      ))}
    </div>
  );
}

function BottomBar() {
  const page = route.value.page;
  const waiting = inbox.value.length;
  return (
    <nav class="bottom-bar" aria-label="Main">
      <BottomLink to="home" icon="list" words="Sessions" here={page === "home"} />
      <BottomLink to="inbox" icon="inbox" words="Inbox" here={page === "inbox"} count={waiting} />
      <BottomLink to="new" icon="plus" words="New" here={page === "new"} />
      <BottomLink to="settings" icon="gear" words="Settings" here={page === "settings"} />
    </nav>
  );
}

function BottomLink(props: {
  to: "home" | "inbox" | "new" | "settings";
  icon: IconName;
  words: string;
  here: boolean;
  count?: number;
}) {
  return (
    <a class="bottom-link" href={hrefOf({ page: props.to })} aria-current={props.here ? "page" : undefined}>
      <Icon name={props.icon} />
      <span>{props.words}</span>
      <Count of={props.count ?? 0} label="waiting" />
    </a>
  );
}

function keysAnywhere(showHelp: () => void): Keys {
  return {
    "?": showHelp,
    c: () => go({ page: "new" }),
    j: () => step(1),
    k: () => step(-1),
    "g i": () => go({ page: "inbox" }),
    "g p": goToNextProject,
    "g h": () => go({ page: "schedules" }),
    "g w": () => go({ page: "worktrees" }),
    "g g": () => go({ page: "governance" }),
    "g s": () => go({ page: "settings" }),
    "g n": goToNextWaiting,
    t: () => chooseTheme(shownTheme.value === "dark" ? "light" : "dark"),
  };
}

function step(by: number): void {
  const listed = displayOrder(sessions.value).filter((row) => !row.archived);
  const ids = listed.map((row) => row.session_id);
  const at = "session_id" in route.value ? ids.indexOf(route.value.session_id) : -1;
  const next = ids[at < 0 ? 0 : Math.min(ids.length - 1, Math.max(0, at + by))];
  if (next) go({ page: "session", session_id: next });
}

/** The next project where something waits, or else the next one. */
function goToNextProject(): void {
  const others = overview.value?.other_projects ?? [];
  const path = overview.value?.project ?? "";
  const after = [...others.filter((each) => each.path > path), ...others.filter((each) => each.path <= path)];
  const next = after.find((each) => each.waiting.length) ?? after[0];
  if (next) location.assign(hrefIn(next.id, { page: "home" }));
}

function goToNextWaiting(): void {
  const here = "session_id" in route.value ? route.value.session_id : "";
  const waiting = [...new Set(sortInbox(inbox.value).map((row) => row.session_id))];
  const next = waiting[(waiting.indexOf(here) + 1) % waiting.length];
  if (next) go({ page: "session", session_id: next });
}
