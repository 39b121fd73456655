// the base styles come first, so that screens can override them
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/ui.css";
import "./styles/prose.css";
import { render } from "preact";
import { codeIn, exchange } from "./access";
import { startAlerts } from "./alerts";
import { App } from "./app";
import { connection } from "./connection";
import { listenToKeys } from "./keys";
import { watchClock } from "./now";
import { watchAddress } from "./routes";
import { followList, refreshOnFocus } from "./store";
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
  reconnectAfterSleep();
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

function reconnectAfterSleep(): void {
  addEventListener("online", () => connection.nudge());
  let left = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) left = Date.now();
    else if (Date.now() - left > LONG_ABSENCE || connection.status.value === "lost") connection.nudge();
  });
}
