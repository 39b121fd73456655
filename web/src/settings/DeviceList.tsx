/** Browsers on this machine that were opened with a link, and paired devices. */
import { attempt } from "../attempt";
import { moment } from "../format";
import type { Device } from "../protocol";
import { useRequest } from "../requests";
import { Button, Icon, confirm, toast } from "../ui";
import { visibleLine } from "../visible-text";
import { Loaded } from "../ui/PageFrame";

export function DeviceList() {
  const devices = useRequest("list_devices", {});
  const revoke = async (device: Device) => {
    const sure = await confirm({
      title: `Revoke ${visibleLine(device.name)}?`,
      words: `It loses access immediately and ${device.local ? "needs a new link" : "must be paired again"}.`,
      yes: "Revoke",
      danger: true,
    });
    if (!sure) return;
    if (await attempt("revoke_device", { id: device.id })) toast(`Revoked ${visibleLine(device.name)}.`, "good");
    devices.reload();
  };
  return (
    <Loaded of={devices} waiting="Loading devices…">
      {(all) =>
        all.length === 0 ? (
          <p class="quiet">
            No paired devices. To use a phone, start <code>rookery manager --host ADDRESS</code> and scan its code.
          </p>
        ) : (
          <ul class="devices">
            {all.map((device) => (
              <li key={device.id} class="device">
                <Icon name={device.local ? "terminal" : "phone"} />
                <div class="grow">
                  <div>{visibleLine(device.name)}</div>
                  <div class="quiet small">
                    {device.local ? "On this machine, since" : "Paired"} {moment(device.paired)}
                    {device.seen > 0 && `, last seen ${moment(device.seen)}`}
                  </div>
                </div>
                <Button compact kind="danger" label={`Revoke ${visibleLine(device.name)}`} onClick={() => revoke(device)}>
                  Revoke
                </Button>
              </li>
            ))}
          </ul>
        )
      }
    </Loaded>
  );
}
