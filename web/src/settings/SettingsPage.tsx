/** The settings page: appearance, settings, paired devices and shortcuts. */
import { useState } from "preact/hooks";

import { alertsOn, NOTIFY_SETTING, loadNotifySetting, pushOn, pushPossible, switchAlerts, switchPush } from "../alerts";
import { Choices } from "../new-agent/Choices";
import type { SettingRow } from "../protocol";
import { useRequest } from "../requests";
import { ShortcutTable } from "../shell/ShortcutHelp";
import { type Theme, chooseTheme, theme } from "../theme";
import { Switch, toast } from "../ui";
import { Loaded, PageFrame } from "../ui/PageFrame";
import { DeviceList } from "./DeviceList";
import { SettingControl } from "./SettingControl";
import { searchSettings, grouped, isOn } from "./setting-values";
import "./settings.css";

const NOTIFY_KEYS: readonly string[] = [NOTIFY_SETTING, "ui.notify"];

const THEMES: readonly { readonly id: Theme; readonly words: string }[] = [
  { id: "system", words: "System" },
  { id: "light", words: "Light" },
  { id: "dark", words: "Dark" },
];

export default function SettingsPage() {
  return (
    <PageFrame title="Settings">
      <section class="card" aria-labelledby="settings-page">
        <h2 id="settings-page">Appearance</h2>
        <Choices label="Theme" choices={THEMES} chosen={theme.value} choose={chooseTheme} />
      </section>
      <Settings />
      <section class="card" aria-labelledby="settings-devices">
        <h2 id="settings-devices">Browsers and devices with access</h2>
        <DeviceList />
      </section>
      <section class="card" aria-labelledby="settings-keys">
        <h2 id="settings-keys">Keyboard shortcuts</h2>
        <ShortcutTable />
      </section>
    </PageFrame>
  );
}

/** All notification settings: this browser, all browsers, the terminal. */
function Notifications({ rows, saved }: { rows: readonly SettingRow[]; saved: () => void }) {
  const off = rows.some((row) => row.key === NOTIFY_SETTING && !isOn(row));
  return (
    <section class="card" aria-labelledby="settings-notifications">
      <h2 id="settings-notifications">Notifications</h2>
      <Switch on={alertsOn.value && !off} disabled={off} change={alerts}>
        Notify me in this browser when a session needs me and the page is in the background
      </Switch>
      {pushPossible() && (
        <>
          <Switch on={pushOn.value && !off} disabled={off} change={push}>
            Also when the page is closed
          </Switch>
          <p class="quiet small">
            Uses the push service of the browser’s maker, which learns only when a session needs you.
          </p>
        </>
      )}
      {rows.map((row) => (
        <SettingControl
          key={row.key}
          row={row}
          saved={() => {
            saved();
            void loadNotifySetting();
          }}
        />
      ))}
    </section>
  );
}

async function alerts(on: boolean): Promise<void> {
  const problem = await switchAlerts(on);
  if (problem) toast(problem, "bad");
}

async function push(on: boolean): Promise<void> {
  const problem = await switchPush(on);
  if (problem) toast(problem, "bad");
}

function Settings() {
  const settings = useRequest("read_settings", {});
  const [words, setWords] = useState("");
  return (
    <>
      <input
        class="input"
        type="search"
        placeholder="Search settings"
        aria-label="Search settings"
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
      />
      <p class="quiet small">
        Changes are saved to your user settings immediately. A project can be stricter, never more lenient.
      </p>
      <Loaded of={settings} waiting="Loading settings…">
        {(rows) => {
          const fitting = searchSettings(rows, words);
          const groups = grouped(fitting.filter((row) => !NOTIFY_KEYS.includes(row.key)));
          const notifyRows = fitting.filter((row) => NOTIFY_KEYS.includes(row.key));
          if (fitting.length === 0) return <p class="quiet">No settings match.</p>;
          return (
            <>
              {notifyRows.length > 0 && <Notifications rows={notifyRows} saved={settings.reload} />}
              {groups.map((group) => (
                <section key={group.name} class="card" aria-labelledby={`settings-${group.name}`}>
                  <h2 id={`settings-${group.name}`}>{group.title}</h2>
                  {group.rows.map((row) => (
                    <SettingControl key={row.key} row={row} saved={settings.reload} />
                  ))}
                </section>
              ))}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
