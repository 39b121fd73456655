// the base styles come first, so that screens can override them
import "./fonts/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/ui.css";
import "./styles/prose.css";
import { render } from "preact";
import { effect } from "@preact/signals";
import { TOKEN, codeIn, exchange } from "./access";
import { startAlerts, startWorker } from "./alerts";
import { App } from "./app";
import { connection } from "./connection";
import { listenToKeys } from "./keys";
import { watchClock } from "./now";
import { hrefIn, projectPath, route, watchAddress } from "./routes";
import { followList, overview, refreshOnFocus } from "./store";
import { applyTheme } from "./theme";

const LONG_ABSENCE = 30_000;

applyTheme();
watchClock();
listenToKeys();
addEventListener("hashchange", () => codeIn(location.hash) && void connectWithCode(), { capture: true });
void connectWithCode().then(() => {
  watchAddress();
  followList();
  refreshOnFocus();
  startAlerts();
  startWorker();
  reconnectAfterSleep();
  nameProjectInAddress();
  shareToken();
  render(<App />, document.getElementById("page")!);
});

/** Exchanges the code in the address, if there is one, and connects. */
async function connectWithCode(): Promise<void> {
  const code = codeIn(location.hash);
  if (code) {
    history.replaceState(null, "", "#/");
    await exchange(code).catch((error: Error) => {
      connection.problem.value = error.message;
    });
  }
  connection.connect();
}

/** An address without a project leads to another one when the manager is started elsewhere. */
function nameProjectInAddress(): void {
  effect(() => {
    const project_id = overview.value?.project_id;
    if (project_id && projectPath() === "/") history.replaceState(null, "", hrefIn(project_id, route.value));
  });
}

/** When another tab has opened a new link, this one has access too. */
function shareToken(): void {
  addEventListener("storage", ({ key }) => {
    if (key === TOKEN && connection.status.value === "shut") connection.connect();
  });
}

function reconnectAfterSleep(): void {
  addEventListener("online", () => connection.nudge());
  let left = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) left = Date.now();
    else if (Date.now() - left > LONG_ABSENCE || connection.status.value === "lost") connection.nudge();
  });
}
