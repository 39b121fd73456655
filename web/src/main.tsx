// the base styles come first, so that screens can override them
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/ui.css";
import "./styles/prose.css";
import { render } from "preact";
import { codeIn, exchange } from "./access";
import { watchForAttention } from "./alerts";
import { App } from "./app";
import { connection } from "./connection";
import { listenToKeys } from "./keys";
import { watchClock } from "./now";
import { watchAddress } from "./routes";
import { followList, refreshOnFocus } from "./store";
import { wearTheme } from "./theme";

const AWAY_FOR_LONG = 30_000;

wearTheme();
watchClock();
listenToKeys();
addEventListener("hashchange", () => codeIn(location.hash) && void enter(), { capture: true });
void enter().then(() => {
  watchAddress();
  followList();
  refreshOnFocus();
  watchForAttention();
  watchForSleep();
  render(<App />, document.getElementById("page")!);
});

/** Exchanges the code in the address, if there is one, and connects. */
async function enter(): Promise<void> {
  const code = codeIn(location.hash);
  if (code) {
    history.replaceState(null, "", "#/");
    await exchange(code).catch((error: Error) => {
      connection.problem.value = error.message;
    });
  }
  connection.connect();
}

function watchForSleep(): void {
  addEventListener("online", () => connection.nudge());
  let left = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) left = Date.now();
    else if (Date.now() - left > AWAY_FOR_LONG || connection.status.value === "lost") connection.nudge();
  });
}
