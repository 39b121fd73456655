import type { JSX } from "preact";
import { connection } from "./connection";
import { InboxPage } from "./inbox/InboxPage";
import { lazy } from "./lazy";
import { route, type Route } from "./routes";
import { SessionPage } from "./session/SessionPage";
import { NoAccess } from "./shell/NoAccess";
import { Shell } from "./shell/Shell";

const ReviewPage = lazy(() => import("./review/ReviewPage"));
const GovernancePage = lazy(() => import("./governance/GovernancePage"));
const CostPage = lazy(() => import("./cost/CostPage"));
const SchedulesPage = lazy(() => import("./schedules/SchedulesPage"));
const SettingsPage = lazy(() => import("./settings/SettingsPage"));
const VersionsPage = lazy(() => import("./versions/VersionsPage"));
const NewAgentPage = lazy(() => import("./new-agent/NewAgentPage"));
const FleetPage = lazy(() => import("./fleet/FleetPage"));
const FleetSessionPage = lazy(() => import("./fleet/FleetSessionPage"));
const WorktreesPage = lazy(() => import("./worktrees/WorktreesPage"));

export function App() {
  if (connection.status.value === "shut") return <NoAccess />;
  return <Shell>{screenOf(route.value)}</Shell>;
}

function screenOf(to: Route): JSX.Element {
  switch (to.page) {
    case "session":
      return <SessionPage key={to.session_id} session_id={to.session_id} panel={to.panel} />;
    case "task":
      return <SessionPage key={to.task_id} session_id={to.session_id} task_id={to.task_id} />;
    case "review":
      return <ReviewPage key={to.session_id} session_id={to.session_id} />;
    case "versions":
      return <VersionsPage key={to.group_id} group_id={to.group_id} />;
    case "new":
      return <NewAgentPage />;
    case "governance":
      return <GovernancePage />;
    case "cost":
      return <CostPage />;
    case "schedules":
      return <SchedulesPage />;
    case "settings":
      return <SettingsPage />;
    case "worktrees":
      return <WorktreesPage />;
    case "fleet":
      return <FleetPage />;
    case "fleet_session":
      return <FleetSessionPage key={to.session_id} session_id={to.session_id} />;
    case "home":
    case "inbox":
      return <InboxPage />;
  }
}
