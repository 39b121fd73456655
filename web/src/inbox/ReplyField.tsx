import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { withoutSent } from "../session/Composer";
import { Button } from "../ui";

/** A one-line reply with other actions beside it. */
export function ReplyField(props: {
  label: string;
  send: (text: string) => Promise<unknown>;
  children?: ComponentChildren;
}) {
  const words = useSignal("");
  const busy = useSignal(false);
  const send = async () => {
    const written = words.value;
    if (!written.trim() || busy.value) return;
    busy.value = true;
    if (await props.send(written.trim())) words.value = withoutSent(words.value, written);
    busy.value = false;
  };
  return (
    <div class="reply">
      <textarea
        class="input"
        rows={1}
        aria-label={props.label}
        placeholder={props.label}
        value={words.value}
        onInput={(event) => (words.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          if (!event.repeat) void send();
        }}
      />
      <Button icon="send" label="Send" busy={busy.value} disabled={!words.value.trim()} onClick={() => void send()} />
      {props.children}
    </div>
  );
}
