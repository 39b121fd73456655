import { useSignal } from "@preact/signals";
import { attempt } from "../attempt";
import { overview } from "../store";
import { Button, Notice } from "../ui";
import { visibleLine } from "../visible-text";

export const NOT_TRUSTED = "This project is not trusted yet. Look through it first: an agent runs commands and changes files in it.";

/** Asks the user to trust the project. Nothing starts before that. */
export function Trust() {
  const busy = useSignal(false);
  const { trusted = true, project = "" } = overview.value ?? {};
  if (trusted) return null;
  const trust = async () => {
    busy.value = true;
    await attempt("trust_project", { path: project });
    busy.value = false;
  };
  return (
    <div class="reservations">
      <Notice tone="careful" icon="shield">
        <p>
          {NOT_TRUSTED} <code>{visibleLine(project)}</code>
        </p>
        <Button icon="check" busy={busy.value} onClick={() => void trust()}>
          Trust this project
        </Button>
      </Notice>
    </div>
  );
}
