import { SHORTCUTS } from "../keys";
import { Dialog, Key } from "../ui";

export function ShortcutHelp({ close }: { close: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" close={close} wide>
      <div tabIndex={0} role="group" aria-label="Shortcuts">
        <ShortcutTable />
      </div>
    </Dialog>
  );
}

export function ShortcutTable() {
  return (
    <div class="shortcuts">
      {SHORTCUTS.map(({ about, keys }) => (
        <section key={about}>
          <h3>{about}</h3>
          <dl>
            {keys.map(([key, words]) => (
              <div key={key} class="shortcut">
                <dt>
                  {key.split(" ").map((each) => (
                    <Key key={each}>{each}</Key>
                  ))}
                </dt>
                <dd>{words}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </div>
  );
}
