/** Phones and other machines that may open this page. */
import { attempt } from "../attempt";
import { moment } from "../format";
import type { Device } from "../protocol";
import { useAnswer } from "../review/answers";
import { Button, Icon, confirm, toast } from "../ui";
import { line } from "../visible";
import { Answer } from "../worktrees/Sheet";

export function DeviceList() {
  const devices = useAnswer("list_devices", {});
  const revoke = async (device: Device) => {
    const sure = await confirm({
      title: `Revoke ${line(device.name)}?`,
      words: "It is shut out at once and has to be paired anew to come back.",
      yes: "Revoke",
      danger: true,
    });
    if (!sure) return;
    if (await attempt("revoke_device", { id: device.id })) toast(`${line(device.name)} is shut out.`, "good");
    devices.again();
  };
  return (
    <Answer of={devices} waiting="Looking for devices…">
      {(all) =>
        all.length === 0 ? (
          <p class="quiet">
            None. Start <code>rookery manager --host ADDRESS</code> and scan the code that it shows to use a phone.
          </p>
        ) : (
          <ul class="devices">
            {all.map((device) => (
              <li key={device.id} class="device">
                <Icon name="phone" />
                <div class="grow">
                  <div>{line(device.name)}</div>
                  <div class="quiet small">
                    Paired {moment(device.paired)}
                    {device.seen > 0 && `, last seen ${moment(device.seen)}`}
                  </div>
                </div>
                <Button compact kind="danger" label={`Revoke ${line(device.name)}`} onClick={() => revoke(device)}>
                  Revoke
                </Button>
              </li>
            ))}
          </ul>
        )
      }
    </Answer>
  );
}
